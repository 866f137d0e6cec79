"""Make the flag catalogues of engines that are Python packages, without importing them.

The source of a published package is read as syntax trees, and the few functions that build the
command line's parser are followed statement by statement by a small evaluator. It knows
the language and a dozen functions of the standard library, starts nothing, opens nothing but the
package's own file, and answers "unknown, because" for all else. So a catalogue needs neither the
engine's dependencies nor a GPU, and a release that builds its parser in another way is followed
as it is written.

    python -m scripts.read_flags            says how to get the packages, and what else it does
"""
