/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An emulator plug-in that says which node serves whom, where pages really lie: physical addresses tell the home of a
 * page, processors their node. Every processor has a cache of its own (least recently used out, write invalidates), so
 * that what is counted are fetches, not references; a line that another cache has written comes from there. Counted is
 * between the start and the stop mark, data only, user mode and kernel apart. It shares no code with the simulator.
 *
 * Arguments: out=FILE (JSON), per=PROCESSORS of a node, node=BYTES of its memory, size=BYTES of a cache, ways=N, line=BYTES.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The part of the plug-in interface (version 4) and of GLib that is used. */
typedef struct { uint8_t *data; unsigned len; } byte_array;
typedef struct { char *data; unsigned len; } array;
typedef struct { void *handle; const char *name; const char *feature; } register_descriptor;
enum { NO_REGISTERS = 0, READ_REGISTERS = 1, MEMORY_BOTH = 3 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, void (*)(uint64_t, void *));
void qemu_plugin_register_vcpu_init_cb(uint64_t, void (*)(uint64_t, unsigned));
void qemu_plugin_register_vcpu_insn_exec_cb(void *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(void *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
bool qemu_plugin_mem_is_store(uint32_t);
void *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const void *);
uint64_t qemu_plugin_hwaddr_phys_addr(const void *);
size_t qemu_plugin_tb_n_insns(const void *);
void *qemu_plugin_tb_get_insn(const void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const void *);
size_t qemu_plugin_insn_size(const void *);
size_t qemu_plugin_insn_data(const void *, void *, size_t);
array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *, byte_array *);
byte_array *g_byte_array_new(void);
byte_array *g_byte_array_set_size(byte_array *, unsigned);

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

enum { NODES = 4, PROCESSORS = 32, MODES = 2 };
typedef struct { uint64_t line, used; } slot; /* line: its number and 1, so that 0 is none */
/* Who has a line: a bit for each processor, and who has written it, from 1. */
typedef struct { uint32_t holders; uint8_t writer; } state;

static slot *caches[PROCESSORS];
static state *lines;
static uint64_t per, bytes_of_node, size, ways, line_bytes, sets, now;
static uint64_t by_memory[MODES][NODES][NODES], by_cache[MODES][NODES][NODES], references[MODES];
static const char *out_path;
static void *rax;
static byte_array *buffer;
static volatile bool counting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static slot *find(unsigned cpu, uint64_t line)
{
    slot *set = caches[cpu] + line % sets * ways;
    for (uint64_t way = 0; way < ways; way++)
        if (set[way].line == line + 1)
            return &set[way];
    return NULL;
}

static void leaves(unsigned cpu, uint64_t line)
{
    lines[line].holders &= ~(1u << cpu);
    if (lines[line].writer == cpu + 1)
        lines[line].writer = 0;
}

static void fetch(unsigned cpu, uint64_t line, int mode)
{
    slot *set = caches[cpu] + line % sets * ways, *oldest = set;
    unsigned here = cpu / per, writer = lines[line].writer;
    if (writer && writer != cpu + 1)
        by_cache[mode][here][(writer - 1) / per]++;
    else
        by_memory[mode][here][line * line_bytes / bytes_of_node]++;
    lines[line].writer = 0;
    for (uint64_t way = 1; way < ways; way++)
        if (set[way].used < oldest->used)
            oldest = &set[way];
    if (oldest->line)
        leaves(cpu, oldest->line - 1);
    oldest->line = line + 1;
    lines[line].holders |= 1u << cpu;
}

static void refer(unsigned cpu, uint64_t line, bool store, int mode)
{
    slot *own = find(cpu, line);
    references[mode]++;
    if (!own) {
        fetch(cpu, line, mode);
        own = find(cpu, line);
    }
    own->used = ++now;
    if (store) {
        for (unsigned other = 0; other < PROCESSORS; other++)
            if (other != cpu && lines[line].holders >> other & 1) {
                slot *theirs = find(other, line);
                theirs->line = theirs->used = 0;
            }
        lines[line].holders = 1u << cpu;
        lines[line].writer = cpu + 1;
    }
}

static void on_reference(unsigned cpu, uint32_t info, uint64_t address, void *kernel)
{
    if (!counting)
        return;
    void *place = qemu_plugin_get_hwaddr(info, address);
    if (!place || qemu_plugin_hwaddr_is_io(place))
        return;
    uint64_t physical = qemu_plugin_hwaddr_phys_addr(place);
    if (physical >= NODES * bytes_of_node || cpu >= PROCESSORS)
        return;
    pthread_mutex_lock(&lock);
    refer(cpu, physical / line_bytes, qemu_plugin_mem_is_store(info), kernel != NULL);
    pthread_mutex_unlock(&lock);
}

static void matrix(FILE *out, const char *name, uint64_t found[NODES][NODES])
{
    fprintf(out, ", \"%s\": [", name);
    for (int from = 0; from < NODES; from++)
        for (int to = 0; to < NODES; to++)
            fprintf(out, "%s%" PRIu64 "%s", to ? ", " : from ? ", [" : "[", found[from][to], to == NODES - 1 ? "]" : "");
    fprintf(out, "]");
}

static void print(void)
{
    FILE *out = fopen(out_path, "a");
    if (!out)
        return;
    fprintf(out, "{\"user_references\": %" PRIu64 ", \"kernel_references\": %" PRIu64, references[0], references[1]);
    matrix(out, "user_by_memory", by_memory[0]);
    matrix(out, "user_by_cache", by_cache[0]);
    matrix(out, "kernel_by_memory", by_memory[1]);
    matrix(out, "kernel_by_cache", by_cache[1]);
    fprintf(out, "}\n");
    fclose(out);
}

static void on_mark(unsigned cpu, void *data)
{
    (void)cpu, (void)data;
    uint64_t value = 0;
    pthread_mutex_lock(&lock);
    g_byte_array_set_size(buffer, 0);
    qemu_plugin_read_register(rax, buffer);
    memcpy(&value, buffer->data, buffer->len < 8 ? buffer->len : 8);
    if ((value & 0xff) == 2) {
        memset(by_memory, 0, sizeof by_memory);
        memset(by_cache, 0, sizeof by_cache);
        memset(references, 0, sizeof references);
        counting = true;
    } else if ((value & 0xff) == 3 && counting) {
        counting = false;
        print();
    }
    pthread_mutex_unlock(&lock);
}

static void on_translate(uint64_t id, void *tb)
{
    (void)id;
    for (size_t i = 0, n = qemu_plugin_tb_n_insns(tb); i < n; i++) {
        void *insn = qemu_plugin_tb_get_insn(tb, i);
        unsigned char code[3] = {0};
        if (qemu_plugin_insn_size(insn) == 3)
            qemu_plugin_insn_data(insn, code, 3);
        if (memcmp(code, "\x66\x87\xdb", 3) == 0)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, READ_REGISTERS, NULL);
        bool kernel = qemu_plugin_insn_vaddr(insn) >> 63;
        qemu_plugin_register_vcpu_mem_cb(insn, on_reference, NO_REGISTERS, MEMORY_BOTH, kernel ? &lock : NULL);
    }
}

static void on_processor(uint64_t id, unsigned cpu)
{
    (void)id;
    array *list = qemu_plugin_get_registers();
    register_descriptor *registers = (register_descriptor *)(void *)list->data;
    for (unsigned i = 0; i < list->len; i++)
        if (strcmp(registers[i].name, "rax") == 0)
            rax = registers[i].handle;
    if (cpu < PROCESSORS)
        caches[cpu] = calloc(sets * ways, sizeof(slot));
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (!value++)
            continue;
        uint64_t number = strtoull(value, NULL, 0);
        if (strncmp(argv[i], "out=", 4) == 0)
            out_path = strdup(value);
        else if (strncmp(argv[i], "per=", 4) == 0)
            per = number;
        else if (strncmp(argv[i], "node=", 5) == 0)
            bytes_of_node = number;
        else if (strncmp(argv[i], "size=", 5) == 0)
            size = number;
        else if (strncmp(argv[i], "ways=", 5) == 0)
            ways = number;
        else if (strncmp(argv[i], "line=", 5) == 0)
            line_bytes = number;
    }
    if (!out_path || !per || !bytes_of_node || !ways || !line_bytes || size < ways * line_bytes) {
        fprintf(stderr, "servsim remote: out, per, node, size, ways and line are needed\n");
        return 1;
    }
    sets = size / ways / line_bytes;
    lines = mmap(NULL, NODES * bytes_of_node / line_bytes * sizeof(state), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lines == MAP_FAILED)
        return 1;
    buffer = g_byte_array_new();
    qemu_plugin_register_vcpu_init_cb(id, on_processor);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
