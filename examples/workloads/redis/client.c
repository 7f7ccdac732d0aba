/* Clients of Redis: each a thread with a connection, that gets nine keys for each one it sets. The reply to every request
 * is read in full and compared: a value must have its length, so that a run of a broken server is not valid. */
#include <servsim.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { GET = 1, SET = 2, GETS_PER_SET = 9, LONGEST = 60000 };
static const char *socket_path;
static int server;
static unsigned long long keys, value_bytes;
static const char *_Atomic problem;

/* A stream of random numbers for a seed and a user (splitmix64, Steele, Lea & Flood 2014). */
static unsigned long long next(unsigned long long *state)
{
    unsigned long long mixed = *state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int stream = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(address.sun_path, socket_path, sizeof address.sun_path - 1);
    return connect(stream, (struct sockaddr *)&address, sizeof address) == 0 ? stream : -1;
}

/* Sends a request and reads a reply of so many bytes that begins as given. Who waits in a read is woken also when the server has
 * taken the request, which makes room to write; poll waits for the reply alone. */
static int exchange(int stream, const char *request, size_t length, const char *begins, size_t reply)
{
    char answer[LONGEST + 64];
    size_t got = 0;
    struct pollfd reading = {.fd = stream, .events = POLLIN};
    if (write(stream, request, length) != (ssize_t)length)
        return 0;
    while (got < reply) {
        if (poll(&reading, 1, -1) < 0)
            return 0;
        ssize_t more = read(stream, answer + got, sizeof answer - got);
        if (more <= 0)
            return 0;
        got += (size_t)more;
        if (memcmp(answer, begins, got < strlen(begins) ? got : strlen(begins)) != 0)
            return 0;
    }
    return got == reply;
}

static int set(int stream, unsigned long long key, char *request)
{
    int head = sprintf(request, "SET key:%llu ", key);
    memset(request + head, 'a' + (int)(key % 26), value_bytes);
    memcpy(request + head + value_bytes, "\r\n", 2);
    return exchange(stream, request, (size_t)head + value_bytes + 2, "+OK\r\n", 5);
}

static int get(int stream, unsigned long long key, char *request)
{
    char begins[32];
    int length = sprintf(request, "GET key:%llu\r\n", key);
    int head = sprintf(begins, "$%llu\r\n%c", value_bytes, 'a' + (int)(key % 26));
    return exchange(stream, request, (size_t)length, begins, (size_t)head - 1 + value_bytes + 2);
}

static void *user(void *number)
{
    unsigned long long seed = ~0ull, state = 0;
    char request[LONGEST + 64];
    int stream = connected();
    while (stream >= 0 && !problem && servsim_goes_on()) {
        if (seed != servsim_seed()) {
            seed = servsim_seed();
            state = seed << 32 ^ (unsigned long long)(size_t)number << 16;
        }
        unsigned long long key = next(&state) % keys;
        int kind = next(&state) % (GETS_PER_SET + 1) ? GET : SET;
        if (!(kind == GET ? get(stream, key, request) : set(stream, key, request))) {
            problem = kind == GET ? "a GET was not answered with its value" : "a SET was not answered with OK";
            break;
        }
        servsim_ended(kind, server);
    }
    if (stream < 0)
        problem = "a client could not connect";
    else
        close(stream);
    return NULL;
}

int main(int count, char **words)
{
    if (count != 7)
        return 2;
    socket_path = words[1];
    server = atoi(words[2]);
    size_t users = strtoull(words[3], NULL, 10);
    keys = strtoull(words[4], NULL, 10);
    value_bytes = strtoull(words[5], NULL, 10);
    if (users < 1 || users > 1000 || keys < 1 || value_bytes < 1 || value_bytes > LONGEST) {
        fprintf(stderr, "redis-client: users must be 1 to 1000, keys at least 1, value 1 to %d bytes\n", LONGEST);
        return 2;
    }
    static char request[LONGEST + 64];
    int stream = connected();
    for (unsigned long long key = 0; key < keys && !problem; key++)
        if (stream < 0 || !set(stream, key, request))
            problem = "the store could not be filled";
    close(stream);
    pthread_t threads[1000];
    servsim_begin(strtoull(words[6], NULL, 10), users);
    for (size_t number = 0; number < users; number++)
        pthread_create(&threads[number], NULL, user, (void *)number);
    for (size_t number = 0; number < users; number++)
        pthread_join(threads[number], NULL);
    return servsim_finish(problem);
}
