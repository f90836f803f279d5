"""The text of `main.c`: a program that runs the controller on lines of text, and checks it against its test vectors."""

from __future__ import annotations

PROGRAM = """\
/* Runs the controller on observations, one a line, and writes its actions, one a line.

   controller < observations.txt          every line has CONTROLLER_SENSORS numbers, separated by spaces or commas
   controller --elapsed < timed.txt       and the elapsed time as its last number; always so if CONTROLLER_TIMED is 1
   controller --check vectors.csv         compares every step with a recorded one

   A line `reset` puts the controller where it is before an episode. Flags go to stderr. */
#include "controller.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS (2 + CONTROLLER_SENSORS + CONTROLLER_ACTIONS + CONTROLLER_STATE)
#define WIDTH 40 /* characters of a number, at most */
#define DELIMITERS " \\t,\\r\\n"

#ifdef CONTROLLER_DOUBLE
#define READ strtod
#define DIGITS "%.17g"
#define LARGEST 1e-9
#else
#define READ strtof
#define DIGITS "%.9g"
#define LARGEST 1e-3
#endif
#ifdef CONTROLLER_CHOICES
typedef int action_number;
#define PRINTED "%d"
#define AS_PRINTED(action) (action)
#else
typedef controller_real action_number;
#define PRINTED DIGITS
#define AS_PRINTED(action) ((double)(action))
#endif

static char line[COLUMNS * WIDTH + 2];
static long line_number = 0;

/* Reads the next line. Returns 1; 0 at the end of the file; -1 after an error, which it has reported. */
static int next_line(FILE *file) {
    size_t length;
    if (!fgets(line, (int)sizeof line, file)) {
        if (!ferror(file)) return 0;
        fprintf(stderr, "line %ld cannot be read\\n", line_number + 1);
        return -1;
    }
    line_number++;
    length = strlen(line);
    if (length > 0 && line[length - 1] != '\\n' && !feof(file)) {
        fprintf(stderr, "line %ld is too long, or holds a character 0\\n", line_number);
        return -1;
    }
    return 1;
}

/* Reads exactly `count` numbers from the line. Returns 0, or -1 after an error, which it has reported. */
static int read_numbers(controller_real *numbers, int count) {
    int found = 0;
    char *word;
    for (word = strtok(line, DELIMITERS); word; word = strtok(NULL, DELIMITERS)) {
        char *end;
        const controller_real number = READ(word, &end);
        if (*end != '\\0') {
            fprintf(stderr, "line %ld holds \\"%.40s\\", which is not a number\\n", line_number, word);
            return -1;
        }
        if (found < count) numbers[found] = number;
        found++;
    }
    if (found != count) {
        fprintf(stderr, "line %ld has %d numbers, and this controller needs %d\\n", line_number, found, count);
        return -1;
    }
    return 0;
}

static void report(int flags) {
    if (flags & CONTROLLER_NOT_FINITE) {
        fprintf(stderr, "line %ld: not finite, or a negative elapsed time; nothing was changed\\n", line_number);
    }
    if (flags & CONTROLLER_OBSERVATION_OUTSIDE) {
        fprintf(stderr, "line %ld: an observation lies outside the certified range\\n", line_number);
    }
    if (flags & CONTROLLER_STATE_OUTSIDE) {
        fprintf(stderr, "line %ld: a state lies outside the certified range\\n", line_number);
    }
    if (flags & CONTROLLER_ELAPSED_OUTSIDE) {
        fprintf(stderr, "line %ld: the elapsed time lies outside the certified range\\n", line_number);
    }
}

static int run(int timed) {
    static controller_state state;
    static controller_real numbers[CONTROLLER_SENSORS + 1];
    static action_number action[CONTROLLER_ACTIONS];
    int i, found;
    controller_reset(&state);
    while ((found = next_line(stdin)) > 0) {
        if (strcspn(line, "\\r\\n") == 5 && !strncmp(line, "reset", 5)) {
            controller_reset(&state);
            continue;
        }
        numbers[CONTROLLER_SENSORS] = 1;
        if (read_numbers(numbers, CONTROLLER_SENSORS + (timed ? 1 : 0))) return 1;
        report(controller_step(&state, numbers, numbers[CONTROLLER_SENSORS], action));
        for (i = 0; i < CONTROLLER_ACTIONS; i++) printf(i ? " " PRINTED : PRINTED, AS_PRINTED(action[i]));
        printf("\\n");
        if (ferror(stdout)) break;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "the actions cannot be written\\n");
        return 1;
    }
    return found ? 1 : 0;
}

/* Returns the greater of `greatest` and the difference of two numbers, as a share of their size where that is above 1;
   infinity for what is not a number. */
static double greater(double greatest, double found, double wanted) {
    const double difference = fabs(found - wanted) / (fabs(wanted) > 1 ? fabs(wanted) : 1);
    if (found == wanted) return greatest;
    if (!(difference >= 0)) return (double)INFINITY;
    return difference > greatest ? difference : greatest;
}

/* Compares every step with a recorded one, each from the recorded state before it. */
static int check(const char *path) {
    static controller_state state;
    static controller_real row[COLUMNS];
    static action_number action[CONTROLLER_ACTIONS];
    const controller_real *seen = row + 2, *acted = seen + CONTROLLER_SENSORS, *kept = acted + CONTROLLER_ACTIONS;
    double actions = 0, states = 0;
    long steps = 0;
    int i, found;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s cannot be opened\\n", path);
        return 1;
    }
    controller_reset(&state);
    found = next_line(file); /* the titles */
    while (found > 0 && (found = next_line(file)) > 0) {
        if (read_numbers(row, COLUMNS)) {
            found = -1;
            break;
        }
        if (row[0] > 0) controller_reset(&state);
        controller_step(&state, seen, row[1], action); /* the range of the recorded steps may be a wider one */
        for (i = 0; i < CONTROLLER_ACTIONS; i++) actions = greater(actions, (double)action[i], (double)acted[i]);
        for (i = 0; i < CONTROLLER_STATE; i++) {
            states = greater(states, (double)state.values[i], (double)kept[i]);
            state.values[i] = kept[i];
        }
        steps++;
    }
    fclose(file);
    if (found < 0) return 1;
    if (steps == 0) {
        fprintf(stderr, "%s has no steps\\n", path);
        return 1;
    }
    printf("%ld steps: the greatest difference is %.2g in an action and %.2g in a state\\n", steps, actions, states);
    if (actions > LARGEST || states > LARGEST) {
        fprintf(stderr, "this is more than rounding: the greatest allowed difference is %g\\n", LARGEST);
        return 1;
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count == 1) return run(CONTROLLER_TIMED);
    if (count == 2 && !strcmp(arguments[1], "--elapsed")) return run(1);
    if (count == 3 && !strcmp(arguments[1], "--check")) return check(arguments[2]);
    fprintf(stderr, "usage: %s [--elapsed] < observations > actions, or %s --check vectors.csv\\n", arguments[0],
            arguments[0]);
    return 2;
}
"""


def program_text() -> str:
    """Returns the text of `main.c`, which is the same for every agent."""
    return PROGRAM
