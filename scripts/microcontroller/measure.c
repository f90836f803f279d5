/* Runs the exported controller on its test vectors, and prints each step's flags, count, stack and action.

   The lines are: "loop COUNT" for two million instructions, "step FLAGS COUNT STACK ACTION ..." with every action as
   the eight hexadecimal digits of its bits, and "state BYTES". */

#include <string.h>

#include "board.h"
#include "controller.h"
#include "steps.h"

#define PAINT 0xC5C5C5C5U
#define TURNS 1000000U

static void write_text(const char *text) {
    while (*text) board_write(*text++);
}

static void write_bits(uint32_t value) {
    board_write(' ');
    for (int shift = 28; shift >= 0; shift -= 4) board_write("0123456789abcdef"[(value >> shift) & 15U]);
}

int main(void) {
    static controller_state state;
    static action_type action[ACTION_NUMBERS];
    board_begin();
    uint32_t before = board_count();
    board_loop(TURNS);
    uint32_t after = board_count();
    write_text("loop");
    write_bits(board_count_between(before, after));

    controller_reset(&state);
    for (unsigned step = 0; step < STEPS; step++) {
        if (resets[step]) controller_reset(&state);
        uint32_t *const top = stack_pointer();
        for (volatile uint32_t *word = &stack_painted; word < top; word++) *word = PAINT;
        before = board_count();
        const int flags = controller_step(&state, observations[step], elapsed[step], action);
        after = board_count();
        const volatile uint32_t *deepest = &stack_painted;
        while (deepest < top && *deepest == PAINT) deepest++;
        write_text("\nstep");
        write_bits((uint32_t)flags);
        write_bits(board_count_between(before, after));
        write_bits((uint32_t)(top - deepest) * 4U);
        for (unsigned one = 0; one < ACTION_NUMBERS; one++) {
            uint32_t bits;
            memcpy(&bits, &action[one], sizeof bits);
            write_bits(bits);
        }
    }
    write_text("\nstate");
    write_bits(sizeof state);
    write_text("\n");
    return 0;
}
