/* One thread is jumped out of read, while another waits in one, and comes back to no socket. The other ends with what
 * its read gave. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static sigjmp_buf outside;
static volatile int first, is_outside;

static void jump(int number) {
    (void)number;
    siglongjmp(outside, 1);
}

static void *jumps(void *nothing) {
    char byte;
    if (!sigsetjmp(outside, 1))
        read(first, &byte, 1);
    is_outside = 1;
    for (;;)
        pause();
    return nothing;
}

int main(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7000)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 8))
        return 1;
    first = accept(listener, 0, 0);
    int second = accept(listener, 0, 0);
    pthread_t thread;
    char byte;
    signal(SIGUSR1, jump);
    pthread_create(&thread, 0, jumps, 0);
    usleep(200000);
    pthread_kill(thread, SIGUSR1);
    while (!is_outside)
        usleep(1000);
    if (write(second, "j", 1) != 1)
        return 2;
    return read(second, &byte, 1) == -1 && errno == ECONNRESET ? 0 : 3;
}
