/* The floor of scripts/bench: a server that makes the system calls which a broker cannot avoid, and does nothing else.
 *
 * Per turn of its one epoll loop: one recv for each connection that has bytes, one pwrite for each batch, one send for
 * each connection that has responses; reads are sendfile (up to 16 KiB: one pread, sent together with what is around
 * it). Nothing is checked: no checksum, no producer, no authorisation. It has no indexes on disk, no segments and no
 * replication. So the difference between a broker and this server is what the broker's own work costs.
 *
 * It understands what the load generator sends: Produce 3 to 13 and Fetch 18 in sessions of one topic. A partition is
 * one file, DIRECTORY/bench-TOPIC-PARTITION/0.log.
 *
 * Usage: floor DIRECTORY
 * It prints "ready PORT", then responds to lines on standard input: "topic PARTITIONS" with the number of a new topic,
 * "ends TOPIC" with the end offset of each partition, "delete TOPIC" with "done". It ends with its standard input. A
 * topic's id begins with its number (4 bytes), its name is bench-NUMBER. Anything unexpected ends it with a line on
 * standard error and status 1.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECEIVE (128 * 1024)
#define SMALL (16 * 1024)
#define FLEXIBLE_PRODUCE 9
#define PRODUCE_BY_ID 13

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("floor: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static void *resized(void *memory, size_t size) {
    memory = realloc(memory, size ? size : 1);
    if (!memory) fail("no memory for %zu bytes", size);
    return memory;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static uint64_t get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static void set32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
static void set64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }

static uint32_t varint(const uint8_t **p) {
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*p)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

/* ---- Partitions -------------------------------------------------------------------------------------------------- */

typedef struct { uint64_t base, position; } Place; /* where a batch begins */

typedef struct {
    int fd;
    uint64_t end, size;
    Place *places;
    size_t count, room;
} Partition;

typedef struct { uint32_t count; Partition *partitions; } Topic;

static const char *directory;
static Topic *topics;
static uint32_t topic_count;

static Topic *topic_at(uint32_t number) {
    if (number >= topic_count || !topics[number].partitions) fail("there is no topic %u", number);
    return &topics[number];
}

static Partition *partition_at(uint32_t topic, uint32_t index) {
    Topic *found = topic_at(topic);
    if (index >= found->count) fail("there is no partition %u of topic %u", index, topic);
    return &found->partitions[index];
}

static void path_of(char *path, size_t size, uint32_t topic, uint32_t index, const char *file) {
    snprintf(path, size, "%s/bench-%u-%u%s", directory, topic, index, file);
}

static void create_topic(uint32_t count) {
    topics = resized(topics, (topic_count + 1) * sizeof *topics);
    Topic *topic = &topics[topic_count];
    *topic = (Topic){count, resized(NULL, count * sizeof(Partition))};
    for (uint32_t i = 0; i < count; i++) {
        char path[4096];
        path_of(path, sizeof path, topic_count, i, "");
        if (mkdir(path, 0700)) fail("%s: %s", path, strerror(errno));
        path_of(path, sizeof path, topic_count, i, "/0.log");
        topic->partitions[i] = (Partition){.fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600)};
        if (topic->partitions[i].fd < 0) fail("%s: %s", path, strerror(errno));
    }
    printf("%u\n", topic_count++);
}

static void delete_topic(uint32_t number) {
    Topic *topic = topic_at(number);
    for (uint32_t i = 0; i < topic->count; i++) {
        char path[4096];
        close(topic->partitions[i].fd);
        free(topic->partitions[i].places);
        path_of(path, sizeof path, number, i, "/0.log");
        unlink(path);
        path_of(path, sizeof path, number, i, "");
        rmdir(path);
    }
    free(topic->partitions);
    *topic = (Topic){0};
    puts("done");
}

static void print_ends(uint32_t number) {
    Topic *topic = topic_at(number);
    for (uint32_t i = 0; i < topic->count; i++) printf("%lu ", (unsigned long)topic->partitions[i].end);
    putchar('\n');
}

/* The one write of a batch; its first offset. */
static uint64_t append(Partition *p, uint8_t *batch, uint32_t size) {
    uint64_t first = p->end;
    set64(batch, first);
    ssize_t written = pwrite(p->fd, batch, size, (off_t)p->size);
    if (written != (ssize_t)size) fail("pwrite: %s", written < 0 ? strerror(errno) : "a short write");
    if (p->count == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->places = resized(p->places, p->room * sizeof *p->places);
    }
    p->places[p->count++] = (Place){first, p->size};
    p->end += get32(batch + 23) + 1;
    p->size += size;
    return first;
}

/* The range from the batch with an offset on, at most `most` bytes, but one whole batch; its size. */
static uint64_t range_from(const Partition *p, uint64_t offset, uint64_t most, uint64_t *position) {
    if (offset >= p->end) return 0;
    size_t low = 0, high = p->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (p->places[middle].base <= offset) low = middle;
        else high = middle;
    }
    *position = p->places[low].position;
    uint64_t batch_end = low + 1 < p->count ? p->places[low + 1].position : p->size;
    uint64_t left = p->size - *position;
    if (left <= most) return left;
    return batch_end - *position > most ? batch_end - *position : most;
}

/* ---- Connections ------------------------------------------------------------------------------------------------- */

typedef struct { int fd; size_t at, size; } Piece; /* of a file, or, if fd is -1, of the connection's `out` */

typedef struct Connection {
    int fd, blocked, queued;
    uint8_t *in;
    size_t have, room;
    uint8_t *out;
    size_t out_size, out_room;
    Piece *pieces;
    size_t first, count, piece_room;
    /* the fetch session */
    uint32_t topic, partitions, correlation;
    uint64_t *next;
    uint32_t partition_bytes, fetch_bytes;
    int waiting;
    int64_t wait_until;
} Connection;

static int poller;
static Connection **unsent, **waiting;
static size_t unsent_count, unsent_room, waiting_count, waiting_room;

static void add(Connection ***list, size_t *count, size_t *room, Connection *c) {
    if (*count == *room) *list = resized(*list, (*room = *room ? 2 * *room : 64) * sizeof **list);
    (*list)[(*count)++] = c;
}

static uint8_t *reserve(Connection *c, size_t size) {
    if (c->out_size + size > c->out_room)
        c->out = resized(c->out, c->out_room = 2 * (c->out_size + size));
    return c->out + c->out_size;
}

static void add_piece(Connection *c, int fd, size_t at, size_t size) {
    if (fd < 0 && c->count > c->first && c->pieces[c->count - 1].fd < 0) {
        c->pieces[c->count - 1].size += size; /* bytes of `out` follow each other */
    } else {
        if (c->count == c->piece_room)
            c->pieces = resized(c->pieces, (c->piece_room = c->piece_room ? 2 * c->piece_room : 8) * sizeof *c->pieces);
        c->pieces[c->count++] = (Piece){fd, at, size};
    }
    if (fd < 0) c->out_size += size;
    if (!c->queued) {
        c->queued = 1;
        add(&unsent, &unsent_count, &unsent_room, c);
    }
}

static void add_bytes(Connection *c, size_t size) { add_piece(c, -1, c->out_size, size); }

static void watch(Connection *c, int blocked) {
    if (c->blocked == blocked) return;
    c->blocked = blocked;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}

static void close_connection(Connection *c) {
    close(c->fd);
    c->fd = -1; /* its memory stays: a list may hold it */
}

static void send_all(Connection *c) {
    while (c->first < c->count) {
        Piece *piece = &c->pieces[c->first];
        ssize_t sent;
        if (piece->fd >= 0) {
            off_t at = (off_t)piece->at;
            sent = sendfile(c->fd, piece->fd, &at, piece->size);
        } else {
            sent = send(c->fd, c->out + piece->at, piece->size, c->first + 1 < c->count ? MSG_MORE : 0);
        }
        if (sent < 0 && errno == EAGAIN) {
            watch(c, 1);
            return;
        }
        if (sent <= 0) {
            close_connection(c);
            return;
        }
        piece->at += (size_t)sent, piece->size -= (size_t)sent;
        if (piece->size) {
            watch(c, 1); /* a socket that takes less is full */
            return;
        }
        c->first++;
    }
    c->first = c->count = c->out_size = 0;
    watch(c, 0);
}

/* ---- Produce ----------------------------------------------------------------------------------------------------- */

static uint8_t *put32(uint8_t *p, uint32_t v) { set32(p, v); return p + 4; }
static uint8_t *put64(uint8_t *p, uint64_t v) { set64(p, v); return p + 8; }
static uint8_t *put_varint(uint8_t *p, uint32_t v) {
    while (v >= 128) *p++ = (uint8_t)(v | 128), v >>= 7;
    *p++ = (uint8_t)v;
    return p;
}

static uint32_t number_of(const uint8_t *name, uint32_t size) {
    uint32_t number = 0;
    for (uint32_t i = 6; i < size; i++) number = 10 * number + (uint32_t)(name[i] - '0');
    return number;
}

static uint8_t *produced(uint8_t *q, uint16_t version, uint32_t index, uint64_t first) {
    q = put32(q, index);
    *q++ = 0, *q++ = 0;
    q = put64(q, first);
    q = put64(q, UINT64_MAX);
    if (version >= 5) q = put64(q, 0);
    if (version >= FLEXIBLE_PRODUCE) {
        *q++ = 1, *q++ = 0, *q++ = 0; /* no record errors, no message, no tags */
    } else if (version >= 8) {
        q = put32(q, 0);
        *q++ = 0xff, *q++ = 0xff;
    }
    return q;
}

static void produce(Connection *c, uint16_t version, uint32_t correlation, const uint8_t *p, uint32_t frame_size) {
    int flexible = version >= FLEXIBLE_PRODUCE;
    p += flexible ? 1 : 2; /* no transactional id */
    int acks = (int16_t)get16(p);
    p += 6;
    uint8_t *begin = reserve(c, 256 + frame_size), *q = put32(begin + 4, correlation);
    if (flexible) *q++ = 0;
    uint32_t count = flexible ? varint(&p) - 1 : get32(p);
    if (!flexible) p += 4;
    q = flexible ? put_varint(q, count + 1) : put32(q, count);
    for (uint32_t t = 0; t < count; t++) {
        const uint8_t *name = p;
        uint32_t size, topic;
        if (version >= PRODUCE_BY_ID) {
            topic = get32(p), p += 16;
        } else {
            if (flexible) size = varint(&p) - 1;
            else size = get16(p), p += 2;
            topic = number_of(p, size), p += size;
        }
        memcpy(q, name, (size_t)(p - name)), q += p - name;
        uint32_t parts = flexible ? varint(&p) - 1 : get32(p);
        if (!flexible) p += 4;
        q = flexible ? put_varint(q, parts + 1) : put32(q, parts);
        for (uint32_t i = 0; i < parts; i++) {
            uint32_t index = get32(p);
            p += 4;
            uint32_t bytes = flexible ? varint(&p) - 1 : get32(p);
            if (!flexible) p += 4;
            q = produced(q, version, index, append(partition_at(topic, index), (uint8_t *)p, bytes));
            p += bytes + flexible;
        }
        if (flexible) p++, *q++ = 0;
    }
    q = put32(q, 0);
    if (flexible) *q++ = 0;
    set32(begin, (uint32_t)(q - begin - 4));
    if (acks) add_bytes(c, (size_t)(q - begin));
}

/* ---- Fetch ------------------------------------------------------------------------------------------------------- */

/* Respond if there is something to read; 0 if not, and `always` is 0. */
static int answer_fetch(Connection *c, int always) {
    uint32_t found = 0;
    uint64_t total = 4 + 1 + 4 + 2 + 4 + 1, left = c->fetch_bytes;
    Partition *partitions = topic_at(c->topic)->partitions;
    struct { uint64_t position, size; } ranges[c->partitions];
    for (uint32_t i = 0; i < c->partitions; i++) {
        uint64_t most = left < c->partition_bytes ? left : c->partition_bytes;
        ranges[i].size = most ? range_from(&partitions[i], c->next[i], most, &ranges[i].position) : 0;
        left -= ranges[i].size < left ? ranges[i].size : left;
        found += ranges[i].size != 0;
    }
    if (!found && !always) return 0;
    uint8_t number[5];
    if (found) total += 16 + (uint64_t)(put_varint(number, found + 1) - number) + 1;
    for (uint32_t i = 0; i < c->partitions; i++)
        if (ranges[i].size)
            total += 4 + 2 + 24 + 1 + 4 + (uint64_t)(put_varint(number, (uint32_t)ranges[i].size + 1) - number) +
                     ranges[i].size + 1;
    total += 1;
    uint8_t *begin = reserve(c, 64), *q = put32(begin, (uint32_t)total);
    q = put32(q, c->correlation);
    *q++ = 0;
    q = put32(q, 0);
    *q++ = 0, *q++ = 0;
    q = put32(q, 1); /* the session */
    *q++ = found ? 2 : 1;
    if (found) {
        memset(q, 1, 16), set32(q, c->topic), q += 16;
        q = put_varint(q, found + 1);
    }
    add_bytes(c, (size_t)(q - begin));
    for (uint32_t i = 0; i < c->partitions; i++) {
        uint64_t size = ranges[i].size;
        if (!size) continue;
        Partition *p = &partitions[i];
        begin = q = reserve(c, 64 + SMALL);
        q = put32(q, i);
        *q++ = 0, *q++ = 0;
        q = put64(q, p->end), q = put64(q, p->end), q = put64(q, 0);
        *q++ = 0; /* no aborted transactions */
        q = put32(q, UINT32_MAX);
        q = put_varint(q, (uint32_t)size + 1);
        if (size <= SMALL) {
            if (pread(p->fd, q, size, (off_t)ranges[i].position) != (ssize_t)size) fail("pread: %s", strerror(errno));
            q += size;
        } else {
            add_bytes(c, (size_t)(q - begin));
            add_piece(c, p->fd, ranges[i].position, size);
            begin = q = reserve(c, 1);
        }
        *q++ = 0;
        add_bytes(c, (size_t)(q - begin));
    }
    begin = q = reserve(c, 2);
    if (found) *q++ = 0;
    *q++ = 0;
    add_bytes(c, (size_t)(q - begin));
    return 1;
}

static void fetch(Connection *c, uint16_t version, uint32_t correlation, const uint8_t *p) {
    if (version != 18) fail("Fetch of version %u", version);
    c->correlation = correlation;
    uint32_t wait_ms = get32(p), epoch = get32(p + 17);
    c->fetch_bytes = get32(p + 8);
    p += 21;
    uint32_t count = varint(&p);
    if (count > 2) fail("Fetch of %u topics", count - 1);
    if (count == 2) {
        c->topic = get32(p), p += 16;
        Topic *topic = topic_at(c->topic);
        if (!epoch) {
            c->partitions = topic->count;
            c->next = resized(c->next, c->partitions * sizeof *c->next);
            for (uint32_t i = 0; i < c->partitions; i++) c->next[i] = UINT64_MAX; /* not fetched */
        }
        uint32_t parts = varint(&p) - 1;
        for (uint32_t i = 0; i < parts; i++, p += 33) {
            if (get32(p) >= c->partitions) fail("Fetch of partition %u", get32(p));
            c->next[get32(p)] = get64(p + 8);
            c->partition_bytes = get32(p + 28);
        }
    }
    if (answer_fetch(c, !wait_ms)) return;
    c->waiting = 1;
    c->wait_until = now_ms() + wait_ms;
    add(&waiting, &waiting_count, &waiting_room, c);
}

static void answer_waiting(void) {
    int64_t now = now_ms();
    size_t kept = 0;
    for (size_t i = 0; i < waiting_count; i++) {
        Connection *c = waiting[i];
        if (c->fd >= 0 && !answer_fetch(c, now >= c->wait_until)) waiting[kept++] = c;
    }
    waiting_count = kept;
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */

static void take(Connection *c, uint8_t *frame, uint32_t size) {
    uint16_t key = get16(frame), version = get16(frame + 2), id = get16(frame + 8);
    uint32_t correlation = get32(frame + 4);
    const uint8_t *body = frame + 10 + (id == UINT16_MAX ? 0 : id);
    if (key == 0) produce(c, version, correlation, body + (version >= FLEXIBLE_PRODUCE), size);
    else if (key == 1) fetch(c, version, correlation, body + 1);
    else fail("a request with key %u", key);
}

static void readable(Connection *c) {
    size_t want = RECEIVE;
    if (c->have >= 4 && get32(c->in) + 4 < c->have + want) want = get32(c->in) + 4 - c->have; /* end with the frame */
    if (c->have + want > c->room) c->in = resized(c->in, c->room = 2 * (c->have + want));
    ssize_t got = recv(c->fd, c->in + c->have, want, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        close_connection(c);
        return;
    }
    c->have += (size_t)got;
    size_t used = 0;
    while (c->have - used >= 4) {
        uint32_t size = get32(c->in + used);
        if (size > 1u << 28) fail("a request of %u bytes", size);
        if (c->have - used < 4 + (size_t)size) break;
        take(c, c->in + used + 4, size);
        used += 4 + size;
    }
    if (used) memmove(c->in, c->in + used, c->have - used), c->have -= used;
}

static void accept_one(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), one = 1;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Connection *c = resized(NULL, sizeof *c);
    *c = (Connection){.fd = fd};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

static void obey(void) {
    char line[64];
    unsigned number;
    if (!fgets(line, sizeof line, stdin)) exit(0);
    if (sscanf(line, "topic %u", &number) == 1) create_topic(number);
    else if (sscanf(line, "ends %u", &number) == 1) print_ends(number);
    else if (sscanf(line, "delete %u", &number) == 1) delete_topic(number);
    else fail("not understood: %s", line);
    fflush(stdout);
}

static int listening(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), buffer = 102400;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer); /* as socket.receive.buffer.bytes: inherited */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (bind(fd, (void *)&address, sizeof address) || listen(fd, 1000)) fail("listen: %s", strerror(errno));
    getsockname(fd, (void *)&address, &size);
    printf("ready %u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int count, char **words) {
    if (count != 2) fail("usage: floor DIRECTORY");
    directory = words[1];
    poller = epoll_create1(0);
    Connection commands = {.fd = 0}, listener = {.fd = listening()};
    setvbuf(stdin, NULL, _IONBF, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &commands};
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &event);
    event.data.ptr = &listener;
    epoll_ctl(poller, EPOLL_CTL_ADD, listener.fd, &event);
    for (;;) {
        struct epoll_event events[256];
        int ready = epoll_wait(poller, events, 256, waiting_count ? 100 : -1);
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            if (c == &commands) obey();
            else if (c == &listener) accept_one(listener.fd);
            else if (events[i].events & EPOLLOUT) send_all(c);
            else readable(c);
        }
        if (waiting_count) answer_waiting();
        for (size_t i = 0; i < unsent_count; i++) {
            unsent[i]->queued = 0;
            if (unsent[i]->fd >= 0 && !unsent[i]->blocked) send_all(unsent[i]);
        }
        unsent_count = 0;
    }
}
