/* The board MPS2 with the image AN386, whose processor is a Cortex-M4 with a single-precision FPU. */

#include "board.h"

extern uint32_t data_begin, data_end, data_in_flash, bss_begin, bss_end, stack_top;

void start(void);
void fault(void);
static void finish(uint32_t code);

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    &stack_top, (void *)start, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};

static volatile uint32_t *const access = (volatile uint32_t *)0xE000ED88; /* CPACR */
static volatile uint32_t *const timer = (volatile uint32_t *)0xE000E010;  /* SysTick: control, reload, value */
static volatile uint32_t *const serial = (volatile uint32_t *)0x40004000; /* UART 0: data, state, control, -, divider */

void start(void) {
    *access |= 0xFU << 20;
    __asm volatile("dsb\n\tisb");
    const uint32_t *from = &data_in_flash;
    for (uint32_t *to = &data_begin; to < &data_end;) *to++ = *from++;
    for (uint32_t *to = &bss_begin; to < &bss_end;) *to++ = 0;
    finish((uint32_t)main());
}

void fault(void) { finish(99); }

/* Ends the emulator with an exit code, by the semihosting call SYS_EXIT_EXTENDED. */
static void finish(uint32_t code) {
    const uint32_t reason[2] = {0x20026, code}; /* ADP_Stopped_ApplicationExit */
    register uint32_t operation __asm("r0") = 0x20;
    register const uint32_t *given __asm("r1") = reason;
    __asm volatile("bkpt 0xAB" : : "r"(operation), "r"(given) : "memory");
    for (;;) {
    }
}

void board_begin(void) {
    serial[4] = 16;
    serial[2] = 1;
    timer[1] = 0xFFFFFF;
    timer[2] = 0;
    timer[0] = 5; /* on, from the processor's clock, without interrupts */
}

void board_write(char character) {
    while (serial[1] & 1U) {
    }
    serial[0] = (uint32_t)character;
}

uint32_t board_count(void) { return timer[2]; }

uint32_t board_count_between(uint32_t before, uint32_t after) { return (before - after) & 0xFFFFFFU; }

void board_loop(uint32_t turns) { __asm volatile("1: subs %0, %0, #1\n\tbne 1b" : "+r"(turns) : : "cc"); }
