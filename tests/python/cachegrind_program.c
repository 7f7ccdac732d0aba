// A small deterministic program for the comparison with cachegrind: no library, no environment, a
// stack of its own, so that every run under every tool makes the same references. Random unaligned
// additions (many cross a line), recursion, a sort, strides, calls of many functions in random order,
// and instructions that copy strings, exchange, and move 16 bytes across lines.

static unsigned char heap[1 << 17] __attribute__((aligned(4096)));
static unsigned long state = 88172645463325252UL;

// Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
static unsigned long next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#define ONE(n) \
    __attribute__((noinline)) static unsigned f##n(unsigned x) \
    { \
        for (int i = 0; i < 3; i++) \
            x = (x ^ (x >> (n % 13 + 3))) * (2654435761u + 2 * n) + heap[(x + n) % sizeof heap]; \
        return x + n; \
    }
#define TEN(n) \
    ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6)
#define CASES(n) \
    case n##0: return f##n##0(x); \
    case n##1: return f##n##1(x); \
    case n##2: return f##n##2(x); \
    case n##3: return f##n##3(x); \
    case n##4: return f##n##4(x); \
    case n##5: return f##n##5(x); \
    case n##6: return f##n##6(x); \
    case n##7: return f##n##7(x); \
    case n##8: return f##n##8(x); \
    case n##9: return f##n##9(x);

__attribute__((noinline)) static unsigned call(unsigned which, unsigned x)
{
    switch (which % 60 + 10) {
        CASES(1) CASES(2) CASES(3) CASES(4) CASES(5) CASES(6)
    }
    return x;
}

__attribute__((noinline)) static int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

// Shell 1959.
__attribute__((noinline)) static void sort(unsigned *keys, int n)
{
    for (int gap = n / 2; gap; gap /= 2)
        for (int i = gap; i < n; i++) {
            unsigned key = keys[i];
            int j = i;
            for (; j >= gap && keys[j - gap] > key; j -= gap)
                keys[j] = keys[j - gap];
            keys[j] = key;
        }
}

__attribute__((used)) static void work(void)
{
    for (int i = 0; i < 6000; i++)
        *(volatile unsigned long *)(heap + next() % (sizeof heap - 16)) += i;
    fibonacci(9);
    sort((unsigned *)heap, 300);
    for (int round = 0; round < 3; round++)
        for (unsigned place = 0; place < sizeof heap; place += 61)
            (*(volatile unsigned char *)(heap + place))++;
    unsigned x = 1;
    for (int i = 0; i < 1200; i++)
        x = call(next(), x);
    *(volatile unsigned *)heap = x;
    __asm__ volatile("lea heap(%%rip), %%rdi; lea heap+8192(%%rip), %%rsi; mov $500, %%ecx; rep movsq\n"
                     "lock incl heap(%%rip); xor %%eax, %%eax; cmpxchgl %%ecx, heap+61(%%rip)\n"
                     "movups heap+57(%%rip), %%xmm0; movups %%xmm0, heap+4093(%%rip)"
                     ::: "rdi", "rsi", "rcx", "rax", "xmm0", "memory");
}

__asm__(".bss\n.balign 4096\nown_stack: .skip 65536\n.text\n.globl _start\n"
        "_start: lea own_stack+65536(%rip), %rsp\n call work\n mov $60, %eax\n xor %edi, %edi\n syscall\n");
