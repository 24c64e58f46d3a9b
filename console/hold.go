package console

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
)

// holdTime is how long the page's snapshot stays open. It keeps deleted and overwritten entries on disk.
const holdTime = 10 * time.Minute

// hold is the one snapshot that the page may have.
type hold struct {
	mu       sync.Mutex
	snapshot *db.Snapshot // nil: none
	ends     *time.Timer
}

// sequence returns the sequence number of the snapshot, 0 if there is none.
func (h *hold) sequence() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.snapshot.Sequence()
}

// replace closes the snapshot, and holds another one unless it is nil.
func (h *hold) replace(s *db.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.snapshot != nil {
		h.ends.Stop()
		_ = h.snapshot.Close() // fails only if it is closed
	}
	h.snapshot = s
	if s != nil {
		h.ends = time.AfterFunc(holdTime, func() { h.end(s) })
	}
}

// end closes the snapshot if it is still s.
func (h *hold) end(s *db.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.snapshot == s {
		_ = s.Close()
		h.snapshot = nil
	}
}

// hold holds the present moment, or releases the one that is held.
func (h *handler) hold(r *http.Request) (held struct{ Held uint64 }, err error) {
	var in struct{ Hold bool }
	if err := read(r, &in); err != nil {
		return held, err
	}
	var snapshot *db.Snapshot
	if in.Hold {
		snapshot = h.store.NewSnapshot()
	}
	h.held.replace(snapshot)
	h.status.drop()
	held.Held = h.held.sequence()
	return held, nil
}

// release closes the snapshot before the store is closed.
func (h *handler) release() { h.held.replace(nil) }

// explainAt explains a key as of a moment: "" for now, or the sequence number of a snapshot.
func (h *handler) explainAt(key []byte, moment string) (*report.Explanation, error) {
	if moment == "" {
		return h.store.Explain(key)
	}
	sequence, err := strconv.ParseUint(moment, 10, 64)
	if err != nil {
		return nil, failure{http.StatusBadRequest, "want the sequence number of a snapshot"}
	}
	x, err := h.explainHeld(key, sequence)
	if held := h.held.sequence(); err != nil && (held == 0 || sequence != held) && !slices.Contains(h.store.OpenSnapshots(), sequence) {
		return nil, failure{http.StatusNotFound, "no snapshot of this moment is open any more"}
	}
	return x, err
}

// explainHeld explains a key as of the page's snapshot, if it has the sequence number, or of another open one.
func (h *handler) explainHeld(key []byte, sequence uint64) (*report.Explanation, error) {
	h.held.mu.Lock()
	snapshot := h.held.snapshot
	h.held.mu.Unlock()
	if snapshot != nil && snapshot.Sequence() == sequence {
		return snapshot.Explain(key)
	}
	return h.store.ExplainAt(key, sequence)
}
