/* Stands in for the emulator, as far as the counting plug-in uses it: one processor, blocks that are run as a test says.
 * Standard input: a line per block, `ADDRESS INSTRUCTIONS LOADS STORES [s PREVIOUS NEXT | m KIND]`; loads are made by its first
 * instructions, stores by its last. `s`: its first instruction is that of the switch, tasks by number; `m`: its last one is a mark. Tasks
 * below 10 are of the client, 0 is idle. Arguments: those of the plug-in.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uint8_t *data; unsigned len; } byte_array;
typedef struct { char *data; unsigned len; } array;
typedef struct { void *handle; const char *name; const char *feature; } register_descriptor;
typedef struct { void *score; size_t offset; } u64_entry;
typedef void (*callback)(unsigned, void *);
int qemu_plugin_install(uint64_t, const void *, int, char **);

static uint64_t score[64], registers[3];
static uint64_t address, loads, stores, mark;
static size_t count;
static void (*translate)(uint64_t, void *);
static void (*start)(uint64_t, unsigned);

/* What was registered for the block, in order: `insn` is -1 for its beginning. */
static struct { int insn, when; callback call; void *data; u64_entry entry; uint64_t value; } todo[4096];
static int todos;
enum { ALWAYS, UNLESS_EQUAL, ADD, ADD_PER_READ, ADD_PER_WRITE };

static void add(int insn, int when, callback call, void *data, u64_entry entry, uint64_t value)
{
    todo[todos].insn = insn, todo[todos].when = when, todo[todos].call = call;
    todo[todos].data = data, todo[todos].entry = entry, todo[todos++].value = value;
}
static int number(const void *insn) { return (int)((intptr_t)insn - 1); }
static uint64_t *field(u64_entry entry) { return (uint64_t *)(void *)((char *)score + entry.offset); }

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*call)(uint64_t, void *)) { (void)id, translate = call; }
void qemu_plugin_register_vcpu_init_cb(uint64_t id, void (*call)(uint64_t, unsigned)) { (void)id, start = call; }
void qemu_plugin_register_vcpu_tb_exec_cb(void *tb, callback call, int flags, void *data)
{
    (void)tb, (void)flags;
    add(-1, ALWAYS, call, data, (u64_entry){0}, 0);
}
void qemu_plugin_register_vcpu_tb_exec_cond_cb(void *tb, callback call, int flags, int when, u64_entry entry,
                                               uint64_t value, void *data)
{
    (void)tb, (void)flags, (void)when;
    add(-1, UNLESS_EQUAL, call, data, entry, value);
}
void qemu_plugin_register_vcpu_insn_exec_cb(void *insn, callback call, int flags, void *data)
{
    (void)flags;
    add(number(insn), ALWAYS, call, data, (u64_entry){0}, 0);
}
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(void *insn, int what, u64_entry entry, uint64_t value)
{
    (void)what;
    add(number(insn), ADD, NULL, NULL, entry, value);
}
void qemu_plugin_register_vcpu_mem_inline_per_vcpu(void *insn, int mode, int what, u64_entry entry, uint64_t value)
{
    (void)what;
    add(number(insn), mode == 1 ? ADD_PER_READ : ADD_PER_WRITE, NULL, NULL, entry, value);
}
size_t qemu_plugin_tb_n_insns(const void *tb) { return (void)tb, count; }
void *qemu_plugin_tb_get_insn(const void *tb, size_t insn) { return (void)tb, (void *)(intptr_t)(insn + 1); }
uint64_t qemu_plugin_insn_vaddr(const void *insn) { return address + 3 * (uint64_t)number(insn); }
size_t qemu_plugin_insn_size(const void *insn) { return (void)insn, 3; }
size_t qemu_plugin_insn_data(const void *insn, void *to, size_t bytes)
{
    return memcpy(to, mark && (size_t)number(insn) + 1 == count ? "\x66\x87\xdb" : "\x48\x89\xc3", bytes), bytes;
}
array *qemu_plugin_get_registers(void)
{
    static register_descriptor known[] = {{&registers[0], "rax", ""}, {&registers[1], "rdi", ""}, {&registers[2], "rsi", ""}};
    static array list = {(char *)known, 3};
    return &list;
}
int qemu_plugin_read_register(void *handle, byte_array *into)
{
    memcpy(into->data, handle, 8);
    return (int)(into->len = 8);
}
/* A task's number is its address; its process number is at +1, its name at +2. */
bool qemu_plugin_read_memory_vaddr(uint64_t at, byte_array *into, size_t bytes)
{
    uint32_t task = (uint32_t)(at >> 8);
    memset(into->data, 0, bytes);
    if ((at & 0xff) == 1)
        memcpy(into->data, &task, sizeof task);
    else
        strcpy((char *)into->data, task < 10 ? "client" : "server");
    return true;
}
void *qemu_plugin_scoreboard_new(size_t bytes) { return bytes > sizeof score ? NULL : score; }
void *qemu_plugin_scoreboard_find(void *of, unsigned vcpu) { return (void)vcpu, of; }
byte_array *g_byte_array_new(void)
{
    byte_array *made = calloc(1, sizeof *made);
    made->data = calloc(1, 64);
    return made;
}
byte_array *g_byte_array_set_size(byte_array *of, unsigned bytes) { return of->len = bytes, of; }

static void run(void)
{
    todos = 0;
    translate(0, NULL);
    for (int insn = -1; insn < (int)count; insn++)
        for (int i = 0; i < todos; i++) {
            bool reads = insn < (int)loads, writes = insn >= (int)(count - stores);
            if (todo[i].insn != insn || (todo[i].when == ADD_PER_READ && !reads) || (todo[i].when == ADD_PER_WRITE && !writes) ||
                (todo[i].when == UNLESS_EQUAL && *field(todo[i].entry) == todo[i].value))
                continue;
            if (todo[i].call)
                todo[i].call(0, todo[i].data);
            else
                *field(todo[i].entry) += todo[i].value;
        }
}

int main(int argc, char **argv)
{
    char line[256], what;
    if (qemu_plugin_install(0, NULL, argc - 1, argv + 1))
        return 1;
    start(0, 0);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t first = 0, second = 0;
        int found = sscanf(line, "%" SCNx64 " %zu %" SCNu64 " %" SCNu64 " %c %" SCNu64 " %" SCNu64, &address, &count, &loads,
                           &stores, &what, &first, &second);
        if (found < 4)
            return 2;
        mark = found > 4 && what == 'm';
        registers[0] = first, registers[1] = first << 8, registers[2] = second << 8;
        run();
    }
    return 0;
}
