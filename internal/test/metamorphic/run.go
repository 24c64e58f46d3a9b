package metamorphic

import (
	"fmt"
	"io"
	"slices"

	"github.com/sievedb/sievedb/db"
)

// Config says what to run.
type Config struct {
	Seed uint64
	// Ops is about how many operations the history has, Sets how many option sets it runs under.
	Ops, Sets int
	// Open opens the store; nil is OpenDB.
	Open OpenFunc
}

// Difference is where a run first answered otherwise than the map.
type Difference struct {
	Set         int
	Options     string
	Index       int // of the operation, from 0
	Op          string
	Answer      string
	RightAnswer string
}

// Outcome is what the runs of a history gave.
type Outcome struct {
	Seed        uint64
	Ops         int // answered, over all sets
	Differences []Difference
	history     *History
	answers     [][]byte // of the map
}

// Run runs the history of c.Seed under each option set, and compares.
func Run(c Config) *Outcome {
	if c.Open == nil {
		c.Open = OpenDB
	}
	h := NewHistory(c.Seed, c.Ops)
	out := &Outcome{Seed: c.Seed, history: h}
	m := newModel(h)
	for i := range h.Ops {
		out.answers = append(out.answers, m.do(nil, &h.Ops[i]))
	}
	sets := make([]*db.Options, c.Sets)
	names := make([]string, c.Sets)
	for i := range sets {
		sets[i], names[i] = Set(c.Seed, i)
	}
	for i := range sets {
		own, name := sets[i:i+1], names[i]
		if i%2 == 1 {
			own = slices.Concat(sets[i:], sets[:i])
			name += "; the next set's at each opening"
		}
		space := ""
		if i%4 == 3 && h.Comparer.IsBytewise() {
			space = spaces[(int(c.Seed%uint64(len(spaces)))+i)%len(spaces)]
			name += fmt.Sprintf("; in namespace %q", space)
		}
		if d := out.run(c.Open, own, space); d != nil {
			d.Set, d.Options = i, name
			out.Differences = append(out.Differences, *d)
		}
	}
	return out
}

// run returns the first difference, nil where there is none.
func (out *Outcome) run(open OpenFunc, sets []*db.Options, space string) *Difference {
	s := newSubject(out.history, open, sets)
	s.space = space
	if err := s.openStore(false); err != nil {
		return &Difference{Op: "open", Answer: err.Error(), RightAnswer: answerDone}
	}
	var answer []byte
	for i := range out.history.Ops {
		op := &out.history.Ops[i]
		answer = s.do(answer[:0], op)
		out.Ops++
		if !right(answer, out.answers[i]) {
			s.abandon()
			return &Difference{Index: i, Op: op.String(), Answer: string(answer), RightAnswer: string(out.answers[i])}
		}
	}
	return nil
}

// WriteHistory writes every operation and its right answer, a line each.
func (out *Outcome) WriteHistory(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "seed %d, comparer %s\n", out.Seed, out.history.Comparer.Name); err != nil {
		return err
	}
	for i := range out.history.Ops {
		if _, err := fmt.Fprintf(w, "%6d  %s  -> %s\n", i, &out.history.Ops[i], out.answers[i]); err != nil {
			return err
		}
	}
	return nil
}
