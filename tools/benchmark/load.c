/* The load generator of scripts/bench: producers and readers of one broker over raw sockets, in one epoll loop.
 *
 * Requests are prepared by Python (`frames.py`) and only patched here: correlation ids, for idempotent producers base
 * sequences and checksums. Every answer is checked: its length, its error codes, its correlation id. Readers follow the
 * Fetch protocol (version 18, incremental sessions), check that offsets have no gap, count records, and check every
 * batch's CRC-32C. Anything wrong ends the run with a line on standard error and status 1.
 *
 * Usage: load NAME=VALUE...   (numbers; strings where noted)
 *   port                 of the broker, on 127.0.0.1
 *   ports (list)         instead, P,P,...: one for each template. Connections take them in turn; each goes to that port and
 *                        sends only that template, as a client sends a partition's records to its leader
 *   frames (path)        the prepared requests, see `read_templates`; needed for producers
 *   producers, inflight  connections, and requests under way on each
 *   requests             how many in all
 *   rate                 requests a second over all connections, on schedule whatever the answers do; 0: as fast as they come
 *   barrier              1: requests are not answered (acks=0), but for the last template, sent once at the end
 *   idempotent           1: base sequences are counted per batch of each template
 *   readers              connections that fetch; topic (32 hex digits), partitions, until (the offset at which each ends)
 *   partition_bytes, fetch_bytes, min_bytes, wait_ms    as in Fetch
 *   limit_s              the run fails when it takes longer
 *   tls                  12 or 13: TLS 1.2 or 1.3 on every connection (only if compiled with -DTLS, with OpenSSL)
 *   opens                connections that are only opened, with a whole handshake if `tls` is given, and closed in order;
 *                        `inflight` at a time
 *
 * It prints "ready" when all are connected, waits for a line on standard input, works, and prints one line of JSON.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif
#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#else
typedef void SSL;
#endif

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *take(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory) fail("no memory for %zu bytes", size);
    return memory;
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static uint64_t get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static void put32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
static void put64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }

/* ---- CRC-32C ------------------------------------------------------------------------------------------------- */

static uint32_t crc_table[8][256];

static void crc_prepare(void) {
    for (int i = 0; i < 256; i++) {
        uint32_t c = (uint32_t)i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        crc_table[0][i] = c;
    }
    for (int i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

static uint32_t crc_plain(uint32_t crc, const uint8_t *p, size_t n) {
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= crc_table[7 - k][word >> 8 * k & 255];
        p += 8, n -= 8;
    }
    while (n--) crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_hardware(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t c = crc;
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = _mm_crc32_u64(c, word);
        p += 8, n -= 8;
    }
    while (n--) c = _mm_crc32_u8((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

static uint32_t crc32c(const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return ~crc_hardware(~0u, p, n);
#endif
    return ~crc_plain(~0u, p, n);
}

/* ---- Latencies: buckets that are 1/64 of their value wide ------------------------------------------------------ */

#define SUB 64
typedef struct { uint64_t count, max; uint64_t bucket[SUB * 48]; } Histogram;

static void note(Histogram *h, int64_t ns) {
    uint64_t v = ns < 0 ? 0 : (uint64_t)ns;
    int shift = 0;
    while (v >> shift >= 2 * SUB) shift++;
    uint64_t at = (uint64_t)shift * SUB + (v >> shift);
    if (at >= SUB * 48) at = SUB * 48 - 1;
    h->bucket[at]++;
    h->count++;
    if (v > h->max) h->max = v;
}

static double quantile_us(const Histogram *h, double q) {
    uint64_t want = (uint64_t)((double)h->count * q), seen = 0;
    for (uint64_t i = 0; i < SUB * 48; i++) {
        seen += h->bucket[i];
        if (h->bucket[i] && seen > want) {
            uint64_t shift = i < 2 * SUB ? 0 : i / SUB - 1;
            return (double)((i - shift * SUB) << shift) / 1000.0;
        }
    }
    return (double)h->max / 1000.0;
}

static void print_histogram(const char *name, const Histogram *h) {
    printf(", \"%s\": {\"count\": %lu, \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}", name,
           (unsigned long)h->count, quantile_us(h, 0.5), quantile_us(h, 0.99), quantile_us(h, 0.999),
           (double)h->max / 1000.0);
}

/* ---- Options --------------------------------------------------------------------------------------------------- */

static struct {
    long port, producers, inflight, requests, rate, barrier, idempotent, readers, partitions, until, partition_bytes,
        fetch_bytes, min_bytes, wait_ms, limit_s, tls, opens;
    const char *frames, *topic, *ports;
} options = {.inflight = 1, .partition_bytes = 1 << 20, .fetch_bytes = 50 << 20, .min_bytes = 1, .wait_ms = 500,
             .limit_s = 60};

static void parse_options(int count, char **words) {
    struct { const char *name; long *value; } numbers[] = {
        {"port", &options.port}, {"producers", &options.producers}, {"inflight", &options.inflight},
        {"requests", &options.requests}, {"rate", &options.rate}, {"barrier", &options.barrier},
        {"idempotent", &options.idempotent}, {"readers", &options.readers}, {"partitions", &options.partitions},
        {"until", &options.until}, {"partition_bytes", &options.partition_bytes},
        {"fetch_bytes", &options.fetch_bytes}, {"min_bytes", &options.min_bytes}, {"wait_ms", &options.wait_ms},
        {"limit_s", &options.limit_s}, {"tls", &options.tls}, {"opens", &options.opens}};
    for (int i = 1; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (!value) fail("%s: NAME=VALUE is wanted", words[i]);
        *value++ = 0;
        if (!strcmp(words[i], "frames")) { options.frames = value; continue; }
        if (!strcmp(words[i], "topic")) { options.topic = value; continue; }
        if (!strcmp(words[i], "ports")) { options.ports = value; continue; }
        size_t k = 0, known = sizeof numbers / sizeof *numbers;
        while (k < known && strcmp(words[i], numbers[k].name)) k++;
        if (k == known) fail("%s: unknown option", words[i]);
        *numbers[k].value = atol(value);
    }
}

/* ---- Templates: requests as Python made them ------------------------------------------------------------------- */

typedef struct { uint32_t position, size, count, error_at; uint32_t sequence; } Batch;
typedef struct { uint32_t size, answer_size, batches; Batch *batch; uint8_t *frame; uint64_t records; } Template;

static Template *templates;
static uint32_t template_count; /* without the barrier */

static uint32_t read32(FILE *file) {
    uint8_t raw[4];
    if (fread(raw, 1, 4, file) != 4) fail("%s ends early", options.frames);
    return get32(raw);
}

/* The file, in big-endian int32: how many templates; of each its size, the size its answer must have (0: any), how many
 * batches; of each batch its position in the frame, size, records, position of its error code in the answer; and the
 * frame. Frames and answers are meant without their size field. */
static void read_templates(void) {
    FILE *file = fopen(options.frames, "rb");
    if (!file) fail("%s: %s", options.frames, strerror(errno));
    uint32_t count = read32(file);
    templates = take(count * sizeof *templates);
    for (uint32_t i = 0; i < count; i++) {
        Template *t = &templates[i];
        t->size = read32(file), t->answer_size = read32(file), t->batches = read32(file);
        t->batch = take(t->batches * sizeof *t->batch);
        for (uint32_t b = 0; b < t->batches; b++) {
            Batch *batch = &t->batch[b];
            batch->position = read32(file), batch->size = read32(file);
            batch->count = read32(file), batch->error_at = read32(file);
            t->records += batch->count;
        }
        t->frame = take(t->size);
        if (fread(t->frame, 1, t->size, file) != t->size) fail("%s ends early", options.frames);
    }
    fclose(file);
    template_count = count - (options.barrier ? 1 : 0);
}

static void next_sequences(Template *t) {
    for (uint32_t i = 0; i < t->batches; i++) {
        Batch *b = &t->batch[i];
        uint8_t *raw = t->frame + b->position;
        put32(raw + 53, b->sequence);
        put32(raw + 17, crc32c(raw + 21, b->size - 21));
        b->sequence = (b->sequence + b->count) & 0x7fffffff;
    }
}

/* ---- TLS ------------------------------------------------------------------------------------------------------- */

#ifdef TLS
#define RECORD 16384

static SSL_CTX *tls_context;

static void tls_prepare(void) {
    tls_context = SSL_CTX_new(TLS_client_method());
    if (!tls_context) fail("no TLS context");
    int version = options.tls == 12 ? TLS1_2_VERSION : TLS1_3_VERSION;
    SSL_CTX_set_min_proto_version(tls_context, version);
    SSL_CTX_set_max_proto_version(tls_context, version);
    SSL_CTX_set_mode(tls_context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(tls_context, 1);
    SSL_CTX_set_default_read_buffer_len(tls_context, 8 * RECORD);
    SSL_CTX_set_verify(tls_context, SSL_VERIFY_NONE, NULL); /* the broker's work is the same */
}

static SSL *tls_client(int fd) {
    SSL *tls = SSL_new(tls_context);
    if (!tls || !SSL_set_fd(tls, fd)) fail("no TLS connection");
    return tls;
}

/* -1 with errno, like a system call: EAGAIN when OpenSSL waits for the socket. */
static ssize_t tls_result(SSL *tls, int result, const char *what) {
    int reason = SSL_get_error(tls, result);
    if (reason == SSL_ERROR_ZERO_RETURN) return 0;
    if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE)
        fail("TLS, %s: %s", what, ERR_reason_error_string(ERR_peek_error()));
    errno = EAGAIN;
    return -1;
}

static int tls_handshake(SSL *tls) {
    int result = SSL_connect(tls);
    if (result != 1) {
        if (!tls_result(tls, result, "handshake")) fail("TLS: the broker closed a connection in the handshake");
        return 0;
    }
    if (SSL_session_reused(tls)) fail("a handshake was not a full one");
    return 1;
}

static ssize_t tls_receive(SSL *tls, uint8_t *to, size_t size) {
    ERR_clear_error();
    int got = SSL_read(tls, to, size > 1 << 30 ? 1 << 30 : (int)size);
    return got > 0 ? got : tls_result(tls, got, "receive");
}

/* One record: what the parts have, at most 16 KiB, as Kafka's clients send it. */
static ssize_t tls_send(SSL *tls, const struct iovec *parts, int count) {
    static uint8_t record[RECORD];
    size_t size = 0;
    for (int i = 0; i < count && size < RECORD; i++) {
        size_t part = parts[i].iov_len < RECORD - size ? parts[i].iov_len : RECORD - size;
        memcpy(record + size, parts[i].iov_base, part);
        size += part;
    }
    ERR_clear_error();
    int sent = SSL_write(tls, record, (int)size);
    return sent > 0 ? sent : tls_result(tls, sent, "send");
}

static void tls_end(SSL *tls) { SSL_shutdown(tls); }
static void tls_free(SSL *tls) { SSL_free(tls); }
#else
static void tls_prepare(void) { fail("compiled without TLS"); }
static SSL *tls_client(int fd) { (void)fd; return NULL; }
static int tls_handshake(SSL *tls) { (void)tls; return 0; }
static ssize_t tls_receive(SSL *tls, uint8_t *to, size_t size) { (void)tls, (void)to, (void)size; return 0; }
static ssize_t tls_send(SSL *tls, const struct iovec *p, int count) { (void)tls, (void)p, (void)count; return 0; }
static void tls_end(SSL *tls) { (void)tls; }
static void tls_free(SSL *tls) { (void)tls; }
#endif

/* ---- Connections ----------------------------------------------------------------------------------------------- */

typedef struct { int64_t sent; Template *template; } Pending;

typedef struct {
    int fd, reader, blocked;
    SSL *tls;
    Template *own; /* the only one it sends, if there are several ports */
    /* out: one request under way, its head patched here */
    uint8_t head[12];
    const uint8_t *body;
    size_t head_size, body_size, sent;
    int sending, barrier_sent;
    uint32_t correlation;
    long queued; /* due by the schedule, not begun */
    Pending *ring;
    uint32_t first, under_way;
    /* in */
    uint8_t *in;
    size_t have, room;
    /* reader */
    int64_t *next;
    uint8_t *request;
    uint32_t session, epoch, *asked;
    int done;
    uint64_t records, bytes;
} Connection;

static Connection *connections;
static long connection_count;
static int poller;
static uint32_t ring_size;
static Histogram answered, end_to_end, late;
static long to_begin, completed, barriers_done, readers_done;
static uint64_t sent_records, sent_bytes;
static int64_t first_send, last_answer, last_read;
static int64_t *begun_at; /* by request, for the latency end to end: one partition, one batch a request */
static long begun;

static int connected(long port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0) fail("socket: %s", strerror(errno));
    if (connect(fd, (void *)&address, sizeof address)) fail("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* The port of a template. */
static long port_of(uint32_t number) {
    const char *word = options.ports;
    for (; number; number--, word++)
        if (!(word = strchr(word, ','))) fail("ports=%s: not as many as templates", options.ports);
    return atol(word);
}

static void connect_all(void) {
    for (long i = 0; i < connection_count; i++) {
        Connection *c = &connections[i];
        uint32_t number = options.ports ? (uint32_t)i % template_count : 0;
        if (options.ports) c->own = &templates[number];
        c->fd = connected(options.ports ? port_of(number) : options.port);
        if (options.tls) {
            c->tls = tls_client(c->fd);
            if (!tls_handshake(c->tls)) fail("a blocking handshake has not ended");
        }
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    }
}

static void watch(Connection *c, int blocked) {
    if (c->blocked == blocked) return;
    c->blocked = blocked;
    struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}

/* Send what is left of the request under way; 0 when the socket would block. */
static int push(Connection *c) {
    while (c->sending) {
        struct iovec parts[2];
        int count = 0;
        if (c->sent < c->head_size) parts[count++] = (struct iovec){c->head + c->sent, c->head_size - c->sent};
        size_t body_sent = c->sent > c->head_size ? c->sent - c->head_size : 0;
        if (body_sent < c->body_size)
            parts[count++] = (struct iovec){(void *)(c->body + body_sent), c->body_size - body_sent};
        ssize_t sent = c->tls ? tls_send(c->tls, parts, count) : writev(c->fd, parts, count);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) fail("send: %s", strerror(errno));
            watch(c, 1);
            return 0;
        }
        c->sent += (size_t)sent;
        if (c->sent == c->head_size + c->body_size) c->sending = 0;
    }
    watch(c, 0);
    return 1;
}

/* ---- Producers ------------------------------------------------------------------------------------------------- */

static void begin(Connection *c, Template *t, int answered_later) {
    if (options.idempotent) next_sequences(t);
    put32(c->head, t->size);
    memcpy(c->head + 4, t->frame, 4);
    put32(c->head + 8, ++c->correlation);
    c->head_size = 12, c->body = t->frame + 8, c->body_size = t->size - 8, c->sent = 0, c->sending = 1;
    int64_t now = now_ns();
    if (!first_send) first_send = now;
    if (begun_at) begun_at[begun] = now;
    begun++;
    sent_records += t->records, sent_bytes += t->size;
    if (answered_later) {
        c->ring[(c->first + c->under_way) % ring_size] = (Pending){now, t};
        c->under_way++;
    } else {
        completed++;
    }
}

static void produce(Connection *c) {
    for (;;) {
        if (!push(c)) return;
        if (options.rate) {
            if (!c->queued || c->under_way == ring_size) return;
            c->queued--;
        } else {
            if (!to_begin || (!options.barrier && c->under_way >= options.inflight)) break;
            to_begin--;
        }
        begin(c, c->own ? c->own : &templates[begun % template_count], !options.barrier);
    }
    if (options.barrier && !to_begin && !c->barrier_sent) {
        c->barrier_sent = 1;
        begin(c, &templates[template_count], 1);
        push(c);
    }
}

static void take_answer(Connection *c, const uint8_t *frame, uint32_t size) {
    Pending *p = &c->ring[c->first];
    if (!c->under_way) fail("an answer that nobody asked for");
    uint32_t expected = c->correlation - c->under_way + 1;
    if (get32(frame) != expected) fail("answer %u where %u is due", get32(frame), expected);
    Template *t = p->template;
    for (uint32_t i = 0; i < t->batches; i++)
        if (t->batch[i].error_at + 2 <= size && get16(frame + t->batch[i].error_at))
            fail("batch %u is answered with error %d", i, (int16_t)get16(frame + t->batch[i].error_at));
    if (t->answer_size && size != t->answer_size) fail("answer of %u bytes, expected %u", size, t->answer_size);
    last_answer = now_ns();
    note(&answered, last_answer - p->sent);
    c->first = (c->first + 1) % ring_size;
    c->under_way--;
    if (options.barrier) barriers_done++;
    else completed++;
}

/* ---- Readers --------------------------------------------------------------------------------------------------- */

static void fetch(Connection *c) {
    uint8_t *p = c->request;
    uint32_t asked = 0;
    for (long i = 0; i < options.partitions; i++)
        if (c->epoch == 0 || c->asked[i]) asked++;
    static const uint8_t name[] = "\0\1\0\22\0\0\0\0\0\5bench\0"; /* key 1, version 18, correlation, client id, tags */
    memcpy(p, name, 16), put32(p + 4, ++c->correlation), p += 16;
    put32(p, (uint32_t)options.wait_ms), put32(p + 4, (uint32_t)options.min_bytes);
    put32(p + 8, (uint32_t)options.fetch_bytes), p[12] = 0, put32(p + 13, c->session), put32(p + 17, c->epoch);
    p += 21;
    *p++ = asked ? 2 : 1;
    if (asked) {
        for (int i = 0; i < 16; i++) {
            char digits[3] = {options.topic[2 * i], options.topic[2 * i + 1], 0};
            *p++ = (uint8_t)strtol(digits, NULL, 16);
        }
        uint32_t n = asked + 1;
        while (n >= 128) *p++ = (uint8_t)(n | 128), n >>= 7;
        *p++ = (uint8_t)n;
        for (long i = 0; i < options.partitions; i++) {
            if (c->epoch && !c->asked[i]) continue;
            put32(p, (uint32_t)i), put32(p + 4, 0xffffffff), put64(p + 8, (uint64_t)c->next[i]);
            put32(p + 16, 0xffffffff), put64(p + 20, UINT64_MAX), put32(p + 28, (uint32_t)options.partition_bytes);
            p[32] = 0, p += 33;
            c->asked[i] = 0;
        }
        *p++ = 0;
    }
    *p++ = 1, *p++ = 1, *p++ = 0; /* nothing forgotten, no rack, no tags */
    size_t size = (size_t)(p - c->request);
    put32(c->head, (uint32_t)size);
    c->head_size = 4, c->body = c->request, c->body_size = size, c->sent = 0, c->sending = 1;
    if (!first_send) first_send = now_ns();
    push(c);
}

static uint32_t varint(const uint8_t **p) {
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*p)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

static void skip_tags(const uint8_t **p) {
    for (uint32_t count = varint(p); count; count--) {
        varint(p);
        uint32_t size = varint(p);
        *p += size;
    }
}

static void read_records(Connection *c, uint32_t index, const uint8_t *p, uint32_t size, int64_t now) {
    const uint8_t *end = p + size;
    while (end - p >= 61) {
        uint64_t base = get64(p);
        uint32_t length = get32(p + 8) + 12;
        if (length > (uint64_t)(end - p)) break; /* cut off */
        uint32_t delta = get32(p + 23);
        if (crc32c(p + 21, length - 21) != get32(p + 17)) fail("offset %lu: wrong checksum", (unsigned long)base);
        if ((int64_t)(base + delta) >= c->next[index]) {
            if ((int64_t)base > c->next[index])
                fail("partition %u: offset %lu where %ld is due", index, (unsigned long)base, (long)c->next[index]);
            int64_t from = c->next[index];
            c->next[index] = (int64_t)(base + delta + 1);
            c->records += (uint64_t)(c->next[index] - from);
            if (begun_at) note(&end_to_end, now - begun_at[(uint64_t)from / templates->records]);
        }
        p += length;
    }
    c->bytes += size;
    c->asked[index] = 1;
}

static void take_fetched(Connection *c, const uint8_t *frame, uint32_t size) {
    const uint8_t *p = frame + 5;
    int64_t now = now_ns();
    if (get32(frame) != c->correlation) fail("fetch answer %u where %u is due", get32(frame), c->correlation);
    if (get16(p + 4)) fail("Fetch is answered with error %d", (int16_t)get16(p + 4));
    c->session = get32(p + 6), p += 10;
    uint32_t topics = varint(&p);
    for (uint32_t t = 1; t < topics; t++) {
        p += 16;
        uint32_t count = varint(&p);
        for (uint32_t i = 1; i < count; i++) {
            uint32_t index = get32(p);
            if (get16(p + 4)) fail("partition %u is answered with error %d", index, (int16_t)get16(p + 4));
            p += 30; /* index, error, high watermark, last stable offset, log start */
            uint32_t aborted = varint(&p);
            for (uint32_t a = 1; a < aborted; a++) { p += 16; skip_tags(&p); }
            p += 4;
            uint32_t length = varint(&p);
            if (length > 1) read_records(c, index, p, length - 1, now), p += length - 1;
            skip_tags(&p);
        }
        skip_tags(&p);
    }
    if (p > frame + size) fail("a Fetch answer ends early");
    c->epoch = c->session ? c->epoch + 1 : 0;
    for (long i = 0; i < options.partitions; i++)
        if (c->next[i] < options.until) {
            fetch(c);
            return;
        }
    c->done = 1;
    readers_done++;
    last_read = now_ns();
}

/* ---- The loop -------------------------------------------------------------------------------------------------- */

static void readable(Connection *c) {
    for (;;) {
        if (c->have == c->room) {
            c->room = c->room ? c->room * 2 : 4096;
            if (!(c->in = realloc(c->in, c->room))) fail("no memory for %zu bytes", c->room);
        }
        size_t room = c->room - c->have;
        ssize_t got = c->tls ? tls_receive(c->tls, c->in + c->have, room) : recv(c->fd, c->in + c->have, room, 0);
        if (got == 0) fail("the broker closed a connection");
        if (got < 0) {
            if (errno == EAGAIN || errno == EINTR) return;
            fail("receive: %s", strerror(errno));
        }
        int filled = c->tls || (size_t)got == room; /* OpenSSL may hold more, whatever it has returned */
        c->have += (size_t)got;
        size_t used = 0;
        while (c->have - used >= 4) {
            uint32_t size = get32(c->in + used);
            if (size > 1u << 30) fail("an answer of %u bytes", size);
            if (c->have - used < 4 + (size_t)size) {
                size_t need = 4 + (size_t)size;
                if (need > c->room) {
                    if (!(c->in = realloc(c->in, need))) fail("no memory for %zu bytes", need);
                    c->room = need;
                }
                break;
            }
            if (c->reader) take_fetched(c, c->in + used + 4, size);
            else take_answer(c, c->in + used + 4, size);
            used += 4 + size;
        }
        if (used) memmove(c->in, c->in + used, c->have - used), c->have -= used;
        if (!filled) return;
    }
}

static int finished(void) {
    if (options.producers && completed < options.requests) return 0;
    if (options.barrier && barriers_done < options.producers) return 0;
    return readers_done == options.readers;
}

/* Begin the requests that are due; how long until the next one, in ns (-1: none is left). */
static int64_t keep_schedule(int64_t start, long *scheduled) {
    while (*scheduled < options.requests) {
        int64_t due = start + (int64_t)((double)*scheduled * 1e9 / (double)options.rate);
        int64_t now = now_ns();
        if (due > now) return due - now;
        note(&late, now - due);
        Connection *c = &connections[*scheduled % options.producers];
        c->queued++;
        ++*scheduled;
        produce(c);
    }
    return -1;
}

static void work(void) {
    int64_t start = now_ns(), deadline = start + options.limit_s * 1000000000LL;
    long scheduled = 0;
    to_begin = options.requests;
    for (long i = 0; i < connection_count; i++)
        if (connections[i].reader) fetch(&connections[i]);
        else if (!options.rate) produce(&connections[i]);
    while (!finished()) {
        int64_t pause = options.rate ? keep_schedule(start, &scheduled) : -1;
        if (pause < 0 || pause > 1000000000LL) pause = 1000000000LL;
        else pause = pause > 80000 ? pause - 60000 : 0; /* the last 60 us are spun away: a sleep may take longer */
        struct timespec timeout = {pause / 1000000000LL, pause % 1000000000LL};
        struct epoll_event events[256];
        int count = epoll_pwait2(poller, events, 256, &timeout, NULL);
        if (count < 0 && errno != EINTR) fail("epoll: %s", strerror(errno));
        for (int i = 0; i < count; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
            if (!c->reader) produce(c);
            else if (events[i].events & EPOLLOUT) push(c);
        }
        if (now_ns() > deadline)
            fail("not done after %ld s: %ld of %ld requests, %ld of %ld readers", options.limit_s, completed,
                 options.requests, readers_done, options.readers);
    }
}

/* ---- Connections that are only opened -------------------------------------------------------------------------- */

typedef struct { int fd, ended; SSL *tls; int64_t begun; } Opening;

static int open_next(Opening *o) {
    if (!to_begin) return 0;
    to_begin--, begun++;
    o->begun = now_ns();
    if (!first_send) first_send = o->begun;
    o->fd = connected(options.port);
    o->ended = 0;
    o->tls = options.tls ? tls_client(o->fd) : NULL;
    fcntl(o->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = o};
    epoll_ctl(poller, EPOLL_CTL_ADD, o->fd, &event);
    return 1;
}

/* Continue the handshake; when it is complete, end the connection in order. 1 when the broker has closed it, too: only
 * then the broker's work is done. */
static int opened_and_closed(Opening *o) {
    uint8_t rest[4096];
    ssize_t got;
    if (!o->ended) {
        if (o->tls && !tls_handshake(o->tls)) return 0;
        note(&answered, now_ns() - o->begun);
        o->ended = 1;
        if (o->tls) tls_end(o->tls);
        shutdown(o->fd, SHUT_WR);
    }
    while ((got = recv(o->fd, rest, sizeof rest, 0)) > 0) continue;
    if (got < 0 && errno == EAGAIN) return 0;
    if (o->tls) tls_free(o->tls);
    close(o->fd);
    completed++;
    last_answer = now_ns();
    return 1;
}

static void only_open(void) {
    int64_t deadline = now_ns() + options.limit_s * 1000000000LL;
    Opening *openings = take((size_t)options.inflight * sizeof *openings);
    to_begin = options.opens;
    for (long i = 0; i < options.inflight; i++)
        while (open_next(&openings[i]) && opened_and_closed(&openings[i])) continue;
    while (completed < options.opens) {
        struct epoll_event events[256];
        int count = epoll_wait(poller, events, 256, 1000);
        for (int i = 0; i < count; i++) {
            Opening *o = events[i].data.ptr;
            while (opened_and_closed(o) && open_next(o)) continue;
        }
        if (now_ns() > deadline)
            fail("not done after %ld s: %ld of %ld connections", options.limit_s, completed, options.opens);
    }
}

static void report(void) {
    uint64_t read_records_sum = 0, read_bytes_sum = 0;
    for (long i = 0; i < connection_count; i++)
        read_records_sum += connections[i].records, read_bytes_sum += connections[i].bytes;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double own = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"requests\": %ld, \"sent_records\": %lu, \"sent_bytes\": %lu, \"send_s\": %.6f", begun,
           (unsigned long)sent_records, (unsigned long)sent_bytes, (double)(last_answer - first_send) / 1e9);
    printf(", \"read_records\": %lu, \"read_bytes\": %lu, \"read_s\": %.6f, \"own_cpu_s\": %.3f",
           (unsigned long)read_records_sum, (unsigned long)read_bytes_sum, (double)(last_read - first_send) / 1e9, own);
    print_histogram("answer_us", &answered);
    print_histogram("end_to_end_us", &end_to_end);
    print_histogram("late_us", &late);
    puts("}");
    fflush(stdout);
}

int main(int count, char **words) {
    parse_options(count, words);
    crc_prepare();
    if (options.producers) read_templates();
    if (options.tls) tls_prepare();
    poller = epoll_create1(0);
    connection_count = options.producers + options.readers;
    connections = take((size_t)connection_count * sizeof *connections);
    ring_size = options.rate ? 65536 : (uint32_t)options.inflight + 1;
    for (long i = 0; i < connection_count; i++) {
        Connection *c = &connections[i];
        c->reader = i >= options.producers;
        if (!c->reader) {
            c->ring = take(ring_size * sizeof *c->ring);
            continue;
        }
        c->next = take((size_t)options.partitions * sizeof *c->next);
        c->asked = take((size_t)options.partitions * sizeof *c->asked);
        c->request = take((size_t)options.partitions * 33 + 128);
    }
    if (options.rate && options.readers) begun_at = take((size_t)(options.requests + 1) * sizeof *begun_at);
    connect_all();
    puts("ready");
    fflush(stdout);
    char line[16];
    if (!fgets(line, sizeof line, stdin)) return 1;
    if (options.opens) only_open();
    else work();
    report();
    if (!fgets(line, sizeof line, stdin)) return 0; /* connections stay until the broker's CPU was read */
    return 0;
}
