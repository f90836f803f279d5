/* What a board gives to measure.c. Each board has a folder with a board.c and a board.ld. */

#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* The part of the stack that is painted ends here. From the linker. */
extern uint32_t stack_painted;

/* main runs after the memory is set up, and its result ends the emulator. */
int main(void);

/* Turns the serial line and the counter on. */
void board_begin(void);

/* Writes one character to the serial line. */
void board_write(char character);

/* Returns a counter of time, in which the emulator counts instructions. */
uint32_t board_count(void);

/* Returns by how much the counter went on. */
uint32_t board_count_between(uint32_t before, uint32_t after);

/* Takes two instructions a turn. */
void board_loop(uint32_t turns);

/* Returns the stack pointer of the function that calls it. */
static inline uint32_t *stack_pointer(void) {
    uint32_t *pointer;
#ifdef __riscv
    __asm volatile("mv %0, sp" : "=r"(pointer));
#else
    __asm volatile("mov %0, sp" : "=r"(pointer));
#endif
    return pointer;
}

#endif
