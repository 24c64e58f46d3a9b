package nemesis

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sievedb/sievedb/vfs/outfile"
)

// History is what the clients did and saw. Its methods may be called by any goroutine.
type History struct {
	start time.Time

	mu sync.Mutex
	// These are guarded by mu.
	operations []porcupine.Operation
	marks      []porcupine.Annotation
	counts     Counts
}

// Counts are how the commands of a history ended, and why those failed that did.
type Counts struct {
	Done, NotDone, Unknown, Moved int
	Errors                        map[string]int // by their first word
}

func newHistory() *History {
	return &History{start: time.Now(), counts: Counts{Errors: map[string]int{}}}
}

// now is a time of the history, in nanoseconds. It never goes back.
func (h *History) now() int64 { return int64(time.Since(h.start)) }

// never is the end of an operation that may still happen.
const never = math.MaxInt64

func (h *History) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if op.Output.(output).unknown {
		op.Return = never
		h.counts.Unknown++
	} else {
		h.counts.Done++
	}
	h.operations = append(h.operations, op)
}

// count notes what does not become an operation.
func (h *History) count(f func(c *Counts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.counts)
}

// Mark notes a fault, for pictures and for the log of a failure.
func (h *History) Mark(begin int64, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.marks = append(h.marks, porcupine.Annotation{Tag: "nemesis", Start: begin, End: h.now(), Description: what})
}

// Counts returns how the commands ended so far.
func (h *History) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counts
	c.Errors = make(map[string]int, len(h.counts.Errors))
	for text, n := range h.counts.Errors {
		c.Errors[text] = n
	}
	return c
}

func (c Counts) String() string {
	return fmt.Sprintf("%d done, %d not done, %d unknown, %d moved; errors: %v", c.Done, c.NotDone, c.Unknown, c.Moved, c.Errors)
}

// errUndecided says that a check has found neither a fault nor an order: many operations had unknown ends.
var errUndecided = errors.New("no order was found or excluded")

// Check searches for an order. It returns nil if there is one; otherwise the error names the
// picture that it has written to dir.
func (h *History) Check(patience time.Duration, dir string) error {
	h.mu.Lock()
	operations, marks := h.operations, h.marks
	h.mu.Unlock()
	for _, part := range tags.Partition(operations) {
		if err := checkTag(part, marks, patience, dir); err != nil {
			return err
		}
	}
	return nil
}

// checkTag searches for an order of one tag's operations.
func checkTag(part []porcupine.Operation, marks []porcupine.Annotation, patience time.Duration, dir string) error {
	part = boundUnknown(part)
	result, info := porcupine.CheckOperationsVerbose(tags, part, patience)
	if result == porcupine.Ok {
		return nil
	}
	tag := part[0].Input.(input).tag
	info.AddAnnotations(marks)
	picture := filepath.Join(dir, "history-"+tag+".html")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := outfile.Create(picture, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(porcupine.Visualize(tags, info, f), f.Close()); err != nil {
		return err
	}
	if result == porcupine.Unknown {
		return fmt.Errorf("%w of the %d operations of tag %s in %s; see %s", errUndecided, len(part), tag, patience, picture)
	}
	return fmt.Errorf("no order explains the %d operations of tag %s; see %s", len(part), tag, picture)
}

// unexpected counts the errors that no client should get, whatever fails.
func (c Counts) unexpected() (n int) {
	for word, count := range c.Errors {
		if word != "UNKNOWN" && !promises[word] {
			n += count
		}
	}
	return n
}
