package nemesis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// boundUnknown gives an end to operations of unknown outcome whose value was seen: they happened before the reply that
// shows it. The others stay open. It shortens searches, which try an open operation at each point that
// follows its begin. It returns a copy.
func boundUnknown(history []porcupine.Operation) []porcupine.Operation {
	bounded := slices.Clone(history)
	known := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool { return op.Output.(output).unknown })
	slices.SortFunc(known, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	for i, op := range bounded {
		if !op.Output.(output).unknown {
			continue
		}
		for _, seen := range known {
			if shows(seen.Output.(output), op.Input.(input)) {
				bounded[i].Return = seen.Return
				break
			}
		}
	}
	return bounded
}

// shows reports whether an answer has a value that an operation writes.
func shows(out output, in input) bool {
	for _, c := range in.commands {
		for _, a := range out.answers {
			if c.arg != "" && strings.Contains(string(a), c.arg) {
				return true
			}
		}
	}
	return false
}
