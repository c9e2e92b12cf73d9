/* Linked without shared libraries, so that none is loaded ahead of them: it has what was passed to it, and
 * cannot use it. */
#include <unistd.h>

int main(void) {
    sleep(600);
    return 0;
}
