/*
 * A key-value store that speaks memcached's text protocol (of flush_all no delay):
 *   cc -O2 -o store store.c -loutboard && ./store 0.0.0.0 11211
 * What came at once is answered by one send. When the memory is full, what was not used for longest goes.
 */
#define _POSIX_C_SOURCE 200809L
#include <outboard.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#define MEMORY (64 << 20) /* bytes of all items */
#define LONGEST_VALUE (1 << 20)
#define LONGEST_KEY 250
#define BATCH (64 << 10)          /* bytes that are received, or answered, at once; and of the longest line */
#define MONTH (60 * 60 * 24 * 30) /* longer times than this are dates */
#define TOO_LARGE "SERVER_ERROR object too large for cache"
#define BAD_LINE "CLIENT_ERROR bad command line format"

struct item {
    LIST_ENTRY(item) in_bucket;
    TAILQ_ENTRY(item) by_use;
    uint64_t unique, flags, ends;
    size_t head, value, len;
    char text[]; /* what a get answers: "VALUE", key, flags and length are its head; the value */
};

/* A command; its words behind the key: flags, time, length of the value that follows, unique number, delta;
 * its answers: when a word is wrong, when there is no such item, when there is one, when it is done. */
static const struct command {
    const char *name;
    enum { GET, GETS, SET, CAS, APPEND, PREPEND, INCR, DECR, TOUCH, DELETE, FLUSH, OTHER } what;
    const char *words, *wrong, *absent, *present, *done;
} commands[] = {
    { "get", GET, "", NULL, NULL, NULL, "END" },
    { "gets", GETS, "", NULL, NULL, NULL, "END" },
    { "set", SET, "ftl", BAD_LINE, NULL, NULL, "STORED" },
    { "add", SET, "ftl", BAD_LINE, NULL, "NOT_STORED", "STORED" },
    { "replace", SET, "ftl", BAD_LINE, "NOT_STORED", NULL, "STORED" },
    { "append", APPEND, "ftl", BAD_LINE, "NOT_STORED", NULL, "STORED" },
    { "prepend", PREPEND, "ftl", BAD_LINE, "NOT_STORED", NULL, "STORED" },
    { "cas", CAS, "ftlu", BAD_LINE, "NOT_FOUND", NULL, "STORED" },
    { "incr", INCR, "d", "CLIENT_ERROR invalid numeric delta argument", "NOT_FOUND", NULL, NULL },
    { "decr", DECR, "d", "CLIENT_ERROR invalid numeric delta argument", "NOT_FOUND", NULL, NULL },
    { "touch", TOUCH, "t", "CLIENT_ERROR invalid exptime argument", "NOT_FOUND", NULL, "TOUCHED" },
    { "delete", DELETE, "", NULL, "NOT_FOUND", NULL, "DELETED" },
    { "flush_all", FLUSH, NULL, NULL, NULL, NULL, "OK" },
    { "version", OTHER, NULL, NULL, NULL, NULL, "VERSION 0.1" },
    { "quit", OTHER, NULL, NULL, NULL, NULL, NULL },
    { NULL, OTHER, NULL, NULL, NULL, NULL, "ERROR" },
};

struct client {
    const struct command *command; /* the one that goes on; NULL: a line comes next */
    char *key, *line;              /* of it, and the rest of its line */
    uint64_t numbers[128];         /* its words, by their letters */
    int quiet, ended;
    size_t from, to;   /* of `in`, what was not understood; from behind to: so much is to be skipped */
    size_t sent, made; /* of `out`, the answers */
    ob_handle handle;
    char in[BATCH + LONGEST_VALUE + 2], out[BATCH + LONGEST_VALUE + 1024];
};

static ob_queue *queue;
static LIST_HEAD(bucket, item) table[1 << 17], *bucket; /* that in which a key was looked for last */
static TAILQ_HEAD(, item) used = TAILQ_HEAD_INITIALIZER(used);
static uint64_t held, now, last_unique;

static void drop(struct item *item)
{
    held -= item->len;
    LIST_REMOVE(item, in_bucket);
    TAILQ_REMOVE(&used, item, by_use);
    free(item);
}

static struct item *find(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: among enemies it would need a secret */
    size_t len;
    struct item *item;
    for (len = 0; key[len]; len++)
        hash = (hash ^ (unsigned char)key[len]) * 0x100000001b3u;
    bucket = &table[(hash ^ hash >> 32) % (sizeof table / sizeof *table)];
    LIST_FOREACH(item, bucket, in_bucket)
        if (!strncmp(item->text + 6, key, len) && item->text[6 + len] == ' ' && item->ends > now)
            break; /* what has ended is forgotten in its turn */
    if (item) {
        TAILQ_REMOVE(&used, item, by_use);
        TAILQ_INSERT_TAIL(&used, item, by_use);
    }
    return item;
}

/* Keeps a value of two parts, which may be those of the item that was found under its key. */
static void keep(struct client *client, struct item *old, const char *first, size_t len, const char *second,
                 size_t more)
{
    uint64_t flags = client->numbers['f'];
    char head[LONGEST_KEY + 60];
    size_t begin = (size_t)sprintf(head, "VALUE %s %" PRIu64 " %zu\r\n", client->key, flags, len + more);
    struct item *item = malloc(sizeof *item + begin + len + more + 2);
    if (!item)
        abort();
    *item = (struct item){ .unique = ++last_unique, .flags = flags, .ends = client->numbers['t'],
                           .head = begin, .value = len + more, .len = begin + len + more + 2 };
    memcpy(item->text, head, begin);
    memcpy(item->text + begin, first, len);
    memcpy(item->text + begin + len, second, more);
    memcpy(item->text + begin + len + more, "\r\n", 2);
    if (old)
        drop(old);
    LIST_INSERT_HEAD(bucket, item, in_bucket);
    TAILQ_INSERT_TAIL(&used, item, by_use);
    for (held += item->len; held > MEMORY;)
        drop(TAILQ_FIRST(&used));
}

/* A decimal number. Of kind t it is a time: a negative one has passed, and a short one is from now on. */
static int number(const char *word, char kind, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    if (kind == 't')
        *out = *word == '-' ? 0 : *out == 0 ? UINT64_MAX : *out <= MONTH ? *out + now : *out;
    return strchr(kind == 't' ? "-0123456789" : "0123456789", *word) && !errno && (unsigned char)*end <= ' ';
}

static int say(struct client *client, const char *line)
{
    if (line && !client->quiet)
        client->made += (size_t)sprintf(client->out + client->made, "%s\r\n", line);
    client->command = NULL;
    return 1;
}

/* Does what a command says. 0: its value has not come, or answers are to be sent first. */
static int execute(struct client *client)
{
    const struct command *command = client->command;
    uint64_t *numbers = client->numbers, len = numbers['l'], from, more, sum;
    char *value = client->in + client->from, digits[24];
    struct item *item;
    int what = command->what;
    if (what <= GETS) {
        for (; client->key && client->made < BATCH; client->key = strtok_r(NULL, " \r", &client->line)) {
            if (!(item = find(client->key)))
                continue;
            from = what == GETS ? item->head : 0; /* its head has one more word */
            if (what == GETS)
                client->made += (size_t)sprintf(client->out + client->made, "%.*s %" PRIu64 "\r\n",
                                                (int)item->head - 2, item->text, item->unique);
            memcpy(client->out + client->made, item->text + from, item->len - from);
            client->made += item->len - from;
        }
        return client->key ? 0 : say(client, command->done);
    }
    if (what <= PREPEND) {
        if (len <= LONGEST_VALUE && client->to - client->from < len + 2)
            return 0;
        client->from += len + 2;
        if (len > LONGEST_VALUE || memcmp(value + len, "\r\n", 2))
            return say(client, len > LONGEST_VALUE ? TOO_LARGE : "CLIENT_ERROR bad data chunk");
    }
    item = client->key ? find(client->key) : NULL;
    if (item ? command->present != NULL : command->absent != NULL)
        return say(client, item ? command->present : command->absent);
    if (what == CAS && item->unique != numbers['u'])
        return say(client, "EXISTS");
    if (what <= CAS)
        keep(client, item, value, len, "", 0);
    else if (what <= DECR) {
        if (what <= PREPEND && item->value + len > LONGEST_VALUE)
            return say(client, TOO_LARGE);
        numbers['f'] = item->flags;
        numbers['t'] = item->ends;
        if (what == APPEND)
            keep(client, item, item->text + item->head, item->value, value, len);
        else if (what == PREPEND)
            keep(client, item, value, len, item->text + item->head, item->value);
        else if (item->value > 20 || !number(item->text + item->head, 'd', &sum))
            return say(client, "CLIENT_ERROR cannot increment or decrement non-numeric value");
        else {
            sum = what == INCR ? sum + numbers['d'] : sum > numbers['d'] ? sum - numbers['d'] : 0;
            len = (size_t)sprintf(digits, "%" PRIu64, sum);
            more = item->value > len ? item->value - len : 0; /* it gets no shorter, as memcached has it */
            keep(client, item, digits, len, "                    ", more);
            return say(client, digits);
        }
    } else if (what == TOUCH)
        item->ends = numbers['t'];
    else if (what == DELETE)
        drop(item);
    else if (what == FLUSH)
        while ((item = TAILQ_FIRST(&used)))
            drop(item);
    else
        client->ended = !command->done;
    return say(client, command->done);
}

/* Reads the line of a command. 0: it has not come. */
static int read_line(struct client *client)
{
    char *line = client->in + client->from, *end = memchr(line, '\n', client->to - client->from), *word;
    const struct command *command = commands;
    const char *kind;
    if (!end)
        return 0;
    *end = 0;
    client->from += (size_t)(end + 1 - line);
    client->quiet = 0;
    word = strtok_r(line, " \r", &client->line);
    while (command->name && (!word || strcmp(word, command->name)))
        command++;
    client->key = command->words ? strtok_r(NULL, " \r", &client->line) : NULL;
    if (command->words && (!client->key || strlen(client->key) > LONGEST_KEY))
        return say(client, client->key ? BAD_LINE : "ERROR");
    for (kind = command->words; kind && *kind; kind++)
        if (!(word = strtok_r(NULL, " \r", &client->line)) || !number(word, *kind, client->numbers + *kind))
            return say(client, word ? command->wrong : "ERROR");
    client->quiet = command->what > GETS && strstr(client->line, "noreply");
    client->command = command;
    return 1;
}

/* Does all there is to do. 0: the connection is done. */
static int serve(struct client *client)
{
    for (;;) {
        ssize_t moved;
        while (!client->ended && client->made < BATCH
               && (client->command ? execute(client) : client->from < client->to && read_line(client)))
            ;
        if (client->made > 0) {
            moved = ob_send(queue, client->handle, client->out + client->sent, client->made - client->sent,
                            0, 0);
            if (moved < 0)
                return moved == -EAGAIN; /* OB_ROOM comes */
            if ((client->sent += (size_t)moved) == client->made)
                client->sent = client->made = 0;
            continue;
        }
        if (!client->command) {
            size_t gone = client->from < client->to ? client->from : client->to;
            memmove(client->in, client->in + gone, client->to -= gone);
            client->from -= gone;
        }
        moved = client->ended ? 0 : ob_recv(queue, client->handle, client->in + client->to,
                                            (client->command ? sizeof client->in : BATCH) - client->to, 0);
        if (moved <= 0)
            return moved == -EAGAIN; /* OB_RECEIVE comes */
        client->to += (size_t)moved;
    }
}

int main(int count, char **words)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    ob_context *context;
    ob_handle listener;
    int result = -EINVAL;
    if (count != 3 || inet_pton(AF_INET, words[1], &address.sin_addr) != 1
        || !(address.sin_port = htons((uint16_t)atoi(words[2])))
        || (result = ob_attach(&context, NULL, "store", OB_ANY)) < 0
        || (result = ob_queue_new(context, &queue)) < 0
        || (result = ob_listen(queue, (struct sockaddr *)&address, sizeof address, 1024, 0, &listener)) < 0
        || (result = ob_set(queue, listener, OB_NODELAY, 1)) < 0) {
        fprintf(stderr, "store ADDRESS PORT: %s\n", strerror(-result));
        return 1;
    }
    mallopt(M_MMAP_THRESHOLD, 1 << 20); /* of a client, only what is used takes memory */
    for (;;) {
        ob_event events[64], *event;
        int taken = ob_wait(queue, events, 64, -1);
        now = (uint64_t)time(NULL);
        for (event = events; event < events + taken; event++) {
            struct client *client = (struct client *)(uintptr_t)event->cookie;
            if (event->kind == OB_ACCEPT) {
                while ((client = calloc(1, sizeof *client))
                       && !ob_accept(queue, listener, (uintptr_t)client, &client->handle))
                    ;
                free(client);
            } else if (event->kind == OB_END) {
                ob_close(queue, client->handle);
                free(client);
            } else if (!serve(client))
                ob_shutdown(queue, client->handle, SHUT_RDWR); /* its end is told */
        }
    }
}
