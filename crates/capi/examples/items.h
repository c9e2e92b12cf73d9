/*
 * The items of store.c, and what its commands do with them: nothing here knows of a network.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS (1 << 16)
#define MEMORY ((size_t)64 << 20)  /* bytes of all items */
#define LONGEST_VALUE (1 << 20)    /* bytes of one */
#define LONGEST_KEY 250
#define MONTH (60 * 60 * 24 * 30)  /* longer times than this are dates */

struct item {
    struct item *next;
    time_t ends; /* 0: never */
    uint64_t unique;
    uint32_t flags;
    size_t len;
    char *value; /* followed by the end of the line and a 0 */
    char key[];
};

/* A command of which the value is coming. */
struct storing {
    struct item *item; /* NULL: there is none */
    size_t filled;
    size_t skipping; /* bytes of one that was refused */
    uint64_t unique; /* for cas */
    char how;        /* the first letter of the command, A for append */
};

static struct item *table[BUCKETS];
static size_t held;
static uint64_t last_unique;
static time_t flush_at;

static size_t size_of(const struct item *item)
{
    return sizeof *item + strlen(item->key) + 1 + item->len + 3;
}

static struct item *new_item(const char *key, size_t len, uint32_t flags, time_t ends)
{
    size_t all = sizeof(struct item) + strlen(key) + 1 + len + 3;
    struct item *item = held + all > MEMORY ? NULL : calloc(1, all);
    if (!item)
        return NULL;
    held += all;
    item->len = len;
    item->flags = flags;
    item->ends = ends;
    strcpy(item->key, key);
    item->value = item->key + strlen(key) + 1;
    memcpy(item->value + len, "\r\n", 3);
    return item;
}

static void free_item(struct item *item)
{
    if (item)
        held -= size_of(item);
    free(item);
}

static void discard(struct item **at)
{
    struct item *item = *at;
    *at = item->next;
    free_item(item);
}

/* Where an item is linked, or would be. */
static struct item **find(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: among enemies it would need a secret */
    struct item **at;
    for (const char *byte = key; *byte; byte++)
        hash = (hash ^ (unsigned char)*byte) * 0x100000001b3u;
    for (at = &table[(hash ^ hash >> 32) % BUCKETS]; *at; at = &(*at)->next)
        if (!strcmp((*at)->key, key)) {
            if (!(*at)->ends || (*at)->ends > time(NULL))
                return at;
            discard(at);
            break;
        }
    while (*at)
        at = &(*at)->next;
    return at;
}

static const char *keep(struct item *item)
{
    struct item **at = find(item->key);
    item->next = *at ? (*at)->next : NULL;
    free_item(*at);
    item->unique = ++last_unique;
    *at = item;
    return "STORED";
}

static void flush_all(void)
{
    size_t at;
    flush_at = 0;
    for (at = 0; at < BUCKETS; at++)
        while (table[at])
            discard(&table[at]);
}

/* Does with a value that has come what its command says. */
static const char *store(struct storing *storing)
{
    struct item *item = storing->item, *old = *find(item->key), *first, *second;
    char how = storing->how;
    const char *refused = NULL;
    storing->item = NULL;
    if (memcmp(item->value + item->len, "\r\n", 2))
        refused = "CLIENT_ERROR bad data chunk";
    else if (how == 'c' && (!old || old->unique != storing->unique))
        refused = old ? "EXISTS" : "NOT_FOUND";
    else if (how == 'a' ? old != NULL : !old && strchr("rAp", how))
        refused = "NOT_STORED";
    if (!refused && strchr("Ap", how)) {
        struct item *both = new_item(item->key, old->len + item->len, old->flags, old->ends);
        first = how == 'A' ? old : item;
        second = how == 'A' ? item : old;
        if (both) {
            memcpy(both->value, first->value, first->len);
            memcpy(both->value + first->len, second->value, second->len);
            free_item(item);
            return keep(both);
        }
        refused = "SERVER_ERROR out of memory storing object";
    }
    if (!refused)
        return keep(item);
    free_item(item);
    return refused;
}

/* A decimal number, perhaps with spaces behind it; 0: it is none. */
static int number(const char *word, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return *word >= '0' && *word <= '9' && !errno && !end[strspn(end, " \r\n")];
}

static int date(const char *word, time_t *out)
{
    uint64_t seconds;
    int past = *word == '-', good = number(word + past, &seconds);
    *out = past ? 1 : (time_t)seconds;
    if (!past && seconds && seconds <= MONTH)
        *out += time(NULL);
    return good;
}

/* A command of which a value follows. NULL: it does. */
static const char *await_value(struct storing *storing, char **words, int count)
{
    uint64_t flags, len;
    time_t ends;
    storing->how = !strcmp(words[0], "append") ? 'A' : *words[0];
    if (count < 5 + (storing->how == 'c') || !number(words[2], &flags) || flags > UINT32_MAX
        || !date(words[3], &ends) || !number(words[4], &len) || len > INT32_MAX - 2
        || (storing->how == 'c' && !number(words[5], &storing->unique)))
        return "CLIENT_ERROR bad command line format";
    storing->filled = 0;
    if (len <= LONGEST_VALUE
        && (storing->item = new_item(words[1], len, (uint32_t)flags, ends)) != NULL)
        return NULL;
    storing->skipping = len + 2;
    return len > LONGEST_VALUE ? "SERVER_ERROR object too large for cache"
                               : "SERVER_ERROR out of memory storing object";
}

static const char *count_by(char **words)
{
    static char line[24];
    struct item *old = *find(words[1]), *new;
    uint64_t by, now;
    size_t len;
    if (!number(words[2], &by))
        return "CLIENT_ERROR invalid numeric delta argument";
    if (!old)
        return "NOT_FOUND";
    if (!number(old->value, &now))
        return "CLIENT_ERROR cannot increment or decrement non-numeric value";
    now = *words[0] == 'i' ? now + by : now > by ? now - by : 0;
    len = (size_t)sprintf(line, "%" PRIu64, now);
    /* One that gets shorter keeps its length, as memcached has it. */
    if (!(new = new_item(words[1], len < old->len ? old->len : len, old->flags, old->ends)))
        return "SERVER_ERROR out of memory in incr";
    memset(new->value, ' ', new->len);
    memcpy(new->value, line, len);
    keep(new);
    return line;
}

/* A command. NULL: its value is to come before there is an answer. */
static const char *execute(struct storing *storing, char **words, int count)
{
    static const char *stores[] = { "set", "add", "replace", "append", "prepend", "cas" };
    struct item **item;
    time_t when = 0;
    const char *name = count ? words[0] : "";
    size_t at;
    if (count > 1 && strlen(words[1]) > LONGEST_KEY)
        return "CLIENT_ERROR bad command line format";
    for (at = 0; count > 1 && at < sizeof stores / sizeof *stores; at++)
        if (!strcmp(name, stores[at]))
            return await_value(storing, words, count);
    if (count > 2 && (!strcmp(name, "incr") || !strcmp(name, "decr")))
        return count_by(words);
    if (count > 2 && !strcmp(name, "touch")) {
        if (!date(words[2], &when))
            return "CLIENT_ERROR invalid exptime argument";
        if (!*(item = find(words[1])))
            return "NOT_FOUND";
        (*item)->ends = when;
        return "TOUCHED";
    }
    if (count > 1 && !strcmp(name, "delete")) {
        if (!*(item = find(words[1])))
            return "NOT_FOUND";
        discard(item);
        return "DELETED";
    }
    if (!strcmp(name, "flush_all")) {
        if (count > 1 && !date(words[1], &when))
            return "CLIENT_ERROR bad command line format";
        flush_at = when;
        if (!when)
            flush_all();
        return "OK";
    }
    return !strcmp(name, "version") ? "VERSION 0.1" : "ERROR";
}
