/* QEMU's board "virt" with a RISC-V processor of 32 bits that has single-precision floating-point instructions. */

#include "board.h"

extern uint32_t bss_begin, bss_end;

void begin(void);
static void finish(uint32_t code);

static volatile uint8_t *const serial = (volatile uint8_t *)0x10000000;   /* 16550: data, ..., line status at 5 */
static volatile uint32_t *const power = (volatile uint32_t *)0x00100000; /* ends the emulator */

/* The first instructions: stack, pointers to variables, the floating-point unit, and where faults go. */
__attribute__((naked, section(".vectors"), used)) void start(void) {
    __asm volatile(
        ".option push\n\t.option norelax\n\tla gp, __global_pointer$\n\t.option pop\n\t"
        "la sp, stack_top\n\tla tp, tls_begin\n\t"
        "li t0, 0x2000\n\tcsrs mstatus, t0\n\tcsrwi fcsr, 0\n\t"
        "la t0, fault\n\tcsrw mtvec, t0\n\tj begin");
}

void begin(void) {
    for (uint32_t *to = &bss_begin; to < &bss_end;) *to++ = 0;
    finish((uint32_t)main());
}

__attribute__((aligned(4), used)) void fault(void) { finish(99); }

static void finish(uint32_t code) {
    *power = code ? (code << 16) | 0x3333 : 0x5555;
    for (;;) {
    }
}

void board_begin(void) {}

void board_write(char character) {
    while (!(serial[5] & 0x20U)) {
    }
    serial[0] = (uint8_t)character;
}

uint32_t board_count(void) {
    uint32_t count;
    __asm volatile("csrr %0, minstret" : "=r"(count));
    return count;
}

uint32_t board_count_between(uint32_t before, uint32_t after) { return after - before; }

void board_loop(uint32_t turns) { __asm volatile("1: addi %0, %0, -1\n\tbnez %0, 1b" : "+r"(turns)); }
