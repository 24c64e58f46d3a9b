package console

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// change is a change of the store that a page asks for.
type change struct {
	Action     string
	Key, Value input
	// Ask returns a question and changes nothing.
	Ask bool
}

// answered is the answer to a change: what was done, or what would be.
type answered struct {
	Done     string    `json:",omitempty"`
	Question *question `json:",omitempty"`
}

// question says what a change is about to do, for a person to confirm.
type question struct{ Title, Effect, Button string }

// write changes the store for those who have the token.
func (h *handler) write(r *http.Request) (a answered, err error) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(token), []byte(h.o.WriteToken)) != 1 {
		return a, failure{http.StatusForbidden, "the token is wrong; the command that serves the page has printed it"}
	}
	var in change
	if err := read(r, &in); err != nil {
		return a, err
	}
	key, err := in.Key.bytes()
	if err != nil {
		return a, err
	}
	value, err := in.Value.bytes()
	if err != nil {
		return a, err
	}
	if in.Ask {
		a.Question, err = h.question(in.Action, key, value)
		return a, err
	}
	switch in.Action {
	case "put":
		a.Done, err = "written and synced", h.store.Put(key, value, db.Sync)
	case "delete":
		a.Done, err = "deleted and synced", h.store.Delete(key, db.Sync)
	case "flush":
		a.Done, err = "flushed", h.store.Flush()
	case "compact":
		a.Done, err = "compacted", h.store.Compact(r.Context(), nil, nil)
	default:
		err = errUnknownAction
	}
	return a, err
}

var errUnknownAction = failure{http.StatusBadRequest, "want the action put, delete, flush or compact"}

// question returns the question before an action, with what is there now: the key that was typed may be a wrong one.
func (h *handler) question(action string, key, value []byte) (*question, error) {
	name := fmt.Sprintf("the key \"%s\" (%s)", show(key).Text, plural(len(key), "byte"))
	if len(key) == 0 {
		name = "the empty key"
	}
	m := h.store.Metrics()
	switch action {
	case "put", "delete":
		old, err := h.store.Get(key)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
		return ofKey(action == "put", name, old, err == nil, len(value)), nil
	case "flush":
		return &question{
			"Flush the memtables?",
			fmt.Sprintf("%s with %s of memory become tables of level 0, and their logs are removed. No entry changes.",
				plural(m.Memtables.Count, "memtable"), sizeText(m.Memtables.Bytes)),
			"Flush",
		}, nil
	case "compact":
		tables, bytes := m.AllTables()
		return &question{
			"Compact everything?",
			fmt.Sprintf("All %s (%s) are read and written again, which needs as much free space meanwhile. What is deleted or overwritten, and no snapshot shows, is gone then.",
				plural(tables, "table"), sizeText(bytes)),
			"Compact",
		}, nil
	}
	return nil, errUnknownAction
}

// ofKey returns the question before the put or the deletion of a key.
func ofKey(put bool, name string, old []byte, found bool, size int) *question {
	switch {
	case put && found:
		return &question{"Replace the value of " + name + "?", fmt.Sprintf("Its value of %s is replaced by one of %s.", plural(len(old), "byte"), plural(size, "byte")), "Replace"}
	case put:
		return &question{"Add " + name + "?", fmt.Sprintf("It has no value now, and gets one of %s.", plural(size, "byte")), "Add"}
	case found:
		return &question{"Delete " + name + "?", fmt.Sprintf("Its value of %s is lost.", plural(len(old), "byte")), "Delete"}
	}
	return &question{"Delete " + name + "?", "It has no value now, so nothing is lost.", "Delete"}
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// sizeText is a number of bytes in the largest unit in which it is at least 1.
func sizeText(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n), -1
	for size >= 1024 && unit < 4 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGTP"[unit])
}
