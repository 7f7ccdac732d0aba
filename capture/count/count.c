/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An emulator plug-in that only counts: instructions and data references by mode, between the load
 * generator's start and stop marks, without the load generator's and the idle task's. It shares no
 * code with the capture plug-in, which it checks: counting is done inline by the emulator, and the
 * sums are split when the guest's kernel switches tasks. Everything that runs while a task is
 * current, interrupts included, counts as that task's. As in a trace, all lines are drawn between blocks, as the emulator
 * runs them (it cuts one short where its count of instructions ends): a task's first is the one behind that in which the
 * switch to it begins, and the first that counts the one behind that of the start mark, the last the one before that of
 * the stop mark.
 *
 * Arguments: out=FILE (JSON), switch=ADDRESS of __switch_to_asm, pid=OFFSET and comm=OFFSET in
 * task_struct, client=NAME of the load generator's task, empty where what is measured marks itself.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of the plug-in interface (version 4) and of GLib that is used. */
typedef struct { uint8_t *data; unsigned len; } byte_array;
typedef struct { char *data; unsigned len; } array;
typedef struct { void *handle; const char *name; const char *feature; } register_descriptor;
typedef struct { void *score; size_t offset; } u64_entry;
enum { NO_REGISTERS = 0, READ_REGISTERS = 1, MEMORY_READ = 1, MEMORY_WRITE = 2, INLINE_ADD = 0, IF_NOT_EQUAL = 3 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, void (*)(uint64_t, void *));
void qemu_plugin_register_vcpu_init_cb(uint64_t, void (*)(uint64_t, unsigned));
void qemu_plugin_register_vcpu_tb_exec_cb(void *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(void *, void (*)(unsigned, void *), int, int, u64_entry, uint64_t, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(void *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(void *, int, u64_entry, uint64_t);
void qemu_plugin_register_vcpu_mem_inline_per_vcpu(void *, int, int, u64_entry, uint64_t);
size_t qemu_plugin_tb_n_insns(const void *);
void *qemu_plugin_tb_get_insn(const void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const void *);
size_t qemu_plugin_insn_size(const void *);
size_t qemu_plugin_insn_data(const void *, void *, size_t);
array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *, byte_array *);
bool qemu_plugin_read_memory_vaddr(uint64_t, byte_array *, size_t);
void *qemu_plugin_scoreboard_new(size_t);
void *qemu_plugin_scoreboard_find(void *, unsigned);
byte_array *g_byte_array_new(void);
byte_array *g_byte_array_set_size(byte_array *, unsigned);

__attribute__((visibility("default"))) int qemu_plugin_version = 4;

/* Counters, in the order in which they are printed: user first, then kernel. */
enum { INSTRUCTIONS, LOADS, STORES, KINDS };
typedef struct { uint64_t by_mode[2][KINDS], line; } counts;

enum { MEASURED, CLIENT, IDLE, GROUPS };
static const char *const group_names[GROUPS] = {"measured", "client", "idle"};

static void *score;
static counts *live;
static counts seen, before_mark, sums[GROUPS];
static bool counting, starting;
static uint64_t marks, switches;
static uint64_t switch_address, pid_offset, comm_offset;
static const char *out_path, *client_name;
static void *rax, *rdi, *rsi;
static byte_array *buffer;
/* Whose task runs; the start mark is executed by the client, if there is one. Whose takes over at the next line. */
static int current_group = CLIENT, next_group = CLIENT;

static uint64_t read_register(void *handle)
{
    uint64_t value = 0;
    g_byte_array_set_size(buffer, 0);
    qemu_plugin_read_register(handle, buffer);
    memcpy(&value, buffer->data, buffer->len < 8 ? buffer->len : 8);
    return value;
}

static int group_of(uint64_t task)
{
    uint32_t pid = 0;
    if (qemu_plugin_read_memory_vaddr(task + pid_offset, buffer, 4))
        memcpy(&pid, buffer->data, 4);
    if (pid == 0)
        return IDLE;
    if (*client_name && qemu_plugin_read_memory_vaddr(task + comm_offset, buffer, 16) &&
        strncmp((char *)buffer->data, client_name, 16) == 0)
        return CLIENT;
    return MEASURED;
}

/* Adds what was counted from the last call to `until` to the group of the task that ran. */
static void settle(int group, const counts *until)
{
    for (int mode = 0; mode < 2; mode++)
        for (int kind = 0; kind < KINDS; kind++) {
            uint64_t now = until->by_mode[mode][kind];
            if (counting)
                sums[group].by_mode[mode][kind] += now - seen.by_mode[mode][kind];
            seen.by_mode[mode][kind] = now;
        }
}

static void print(void)
{
    FILE *out = fopen(out_path, "w");
    if (!out)
        return;
    fprintf(out, "{\"transactions\": %" PRIu64 ", \"switches\": %" PRIu64, marks, switches);
    for (int group = 0; group < GROUPS; group++) {
        const uint64_t *user = sums[group].by_mode[0], *kernel = sums[group].by_mode[1];
        fprintf(out,
                ", \"%s\": {\"user_instructions\": %" PRIu64 ", \"user_loads\": %" PRIu64
                ", \"user_stores\": %" PRIu64 ", \"kernel_instructions\": %" PRIu64
                ", \"kernel_loads\": %" PRIu64 ", \"kernel_stores\": %" PRIu64 "}",
                group_names[group], user[INSTRUCTIONS], user[LOADS], user[STORES],
                kernel[INSTRUCTIONS], kernel[LOADS], kernel[STORES]);
    }
    fprintf(out, "}\n");
    fclose(out);
}

static void on_mark(unsigned vcpu, void *data)
{
    (void)vcpu, (void)data;
    unsigned kind = read_register(rax) & 0xff;
    if (kind == 2) {
        live->line = starting = true;
        current_group = next_group = *client_name ? CLIENT : MEASURED;
    } else if (kind == 3 && counting) {
        settle(current_group, &before_mark);
        counting = false;
        print();
    }
    marks += counting && kind == 1;
}

/* The first block behind that of the start mark, or of a switch, begins. */
static void on_line(unsigned vcpu, void *data)
{
    (void)vcpu, (void)data;
    settle(current_group, live);
    live->line = false;
    counting |= starting;
    starting = false;
    current_group = next_group;
}

/* A block with a mark begins. */
static void on_block_of_mark(unsigned vcpu, void *data)
{
    (void)vcpu, (void)data;
    before_mark = *live;
}

static void on_switch(unsigned vcpu, void *data)
{
    (void)vcpu, (void)data;
    current_group = group_of(read_register(rdi));
    next_group = group_of(read_register(rsi));
    switches += counting;
    live->line = true;
}

static void on_translate(uint64_t id, void *tb)
{
    (void)id;
    u64_entry line = {score, offsetof(counts, line)};
    qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_line, NO_REGISTERS, IF_NOT_EQUAL, line, 0, NULL);
    for (size_t i = 0, n = qemu_plugin_tb_n_insns(tb); i < n; i++) {
        void *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        size_t kernel = (address >> 63) * sizeof(live->by_mode[0]);
        u64_entry entry = {score, kernel + INSTRUCTIONS * sizeof(uint64_t)};
        unsigned char code[3] = {0};
        if (qemu_plugin_insn_size(insn) == 3)
            qemu_plugin_insn_data(insn, code, 3);
        if (memcmp(code, "\x66\x87\xdb", 3) == 0) {
            qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block_of_mark, NO_REGISTERS, NULL);
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, READ_REGISTERS, NULL);
        }
        if (address == switch_address)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_switch, READ_REGISTERS, NULL);
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, INLINE_ADD, entry, 1);
        entry.offset = kernel + LOADS * sizeof(uint64_t);
        qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, MEMORY_READ, INLINE_ADD, entry, 1);
        entry.offset = kernel + STORES * sizeof(uint64_t);
        qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, MEMORY_WRITE, INLINE_ADD, entry, 1);
    }
}

static void on_processor(uint64_t id, unsigned vcpu)
{
    (void)id;
    array *list = qemu_plugin_get_registers();
    register_descriptor *registers = (register_descriptor *)(void *)list->data;
    for (unsigned i = 0; i < list->len; i++) {
        if (strcmp(registers[i].name, "rax") == 0)
            rax = registers[i].handle;
        else if (strcmp(registers[i].name, "rdi") == 0)
            rdi = registers[i].handle;
        else if (strcmp(registers[i].name, "rsi") == 0)
            rsi = registers[i].handle;
    }
    live = qemu_plugin_scoreboard_find(score, vcpu);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info, int argc,
                                                               char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (!value++)
            continue;
        if (strncmp(argv[i], "out=", 4) == 0)
            out_path = strdup(value);
        else if (strncmp(argv[i], "client=", 7) == 0)
            client_name = strdup(value);
        else if (strncmp(argv[i], "switch=", 7) == 0)
            switch_address = strtoull(value, NULL, 0);
        else if (strncmp(argv[i], "pid=", 4) == 0)
            pid_offset = strtoull(value, NULL, 0);
        else if (strncmp(argv[i], "comm=", 5) == 0)
            comm_offset = strtoull(value, NULL, 0);
    }
    if (!out_path || !client_name || !switch_address || !pid_offset || !comm_offset) {
        fprintf(stderr, "servsim count: out, client, switch, pid and comm are needed\n");
        return 1;
    }
    buffer = g_byte_array_new();
    score = qemu_plugin_scoreboard_new(sizeof(counts));
    qemu_plugin_register_vcpu_init_cb(id, on_processor);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
