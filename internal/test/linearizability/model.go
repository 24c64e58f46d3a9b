package linearizability

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// maxWidth is how many keys a group has at most.
const maxWidth = 4

// values are what a group's keys hold; 0 is no value. No value but that is written twice.
type values [maxWidth]int

// input is an operation on a group: of its keys those in the mask are written or read.
type input struct {
	group  int
	mask   uint8
	reads  uint8 // the keys that a transaction reads before it writes those of the mask
	write  bool
	values values // what is written; 0 deletes
	tick   bool   // it ends leases and writes nothing
	how    string // for people
}

func (in input) has(key int) bool { return in.mask&(1<<key) != 0 }

// sees reports whether the operation's output has the value that key had before it.
func (in input) sees(key int) bool { return in.reads&(1<<key) != 0 || !in.write && in.has(key) }

// groups is the model: the values of a group, a partition each. The output of a read is the values that it found.
var groups = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		var parts [][]porcupine.Operation
		at := map[int]int{}
		for _, op := range history {
			group := op.Input.(input).group
			i, ok := at[group]
			if !ok {
				i = len(parts)
				at[group], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return values{} },
	Step: func(state, in, out any) (bool, any) {
		now, op := state.(values), in.(input)
		for key := range now {
			if op.sees(key) && now[key] != out.(values)[key] {
				return false, state
			}
			if op.tick {
				if now[key]&lease != 0 {
					now[key] = 0
				}
			} else if op.write && op.has(key) {
				now[key] = op.values[key]
			}
		}
		return true, now
	},
	DescribeOperation: func(in, out any) string {
		op := in.(input)
		shown := op.values
		if !op.write {
			shown = out.(values)
		}
		text := op.how
		for key, value := range out.(values) {
			if op.reads&(1<<key) != 0 {
				text += fmt.Sprintf(" %d was %d", key, value)
			}
		}
		for key := range shown {
			if op.has(key) {
				text += fmt.Sprintf(" %d=%d", key, shown[key])
			}
		}
		return text
	},
}
