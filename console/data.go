package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/report"
)

// input is text from a field of the page: UTF-8, or hexadecimal.
type input struct {
	Text string
	Hex  bool
}

func (i input) bytes() ([]byte, error) {
	if !i.Hex {
		return []byte(i.Text), nil
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(i.Text), ""))
	if err != nil {
		return nil, failure{http.StatusBadRequest, "not hexadecimal: want pairs of the digits 0 to 9 and a to f"}
	}
	return b, nil
}

// shown is the form of bytes on the page, which may be cut.
type shown struct {
	Text  string
	Hex   string
	Bytes int // of the whole
}

// mostShown is the length at which values are cut.
const mostShown = 256

func show(b []byte) *shown {
	s := &shown{Bytes: len(b)}
	cut := ""
	if len(b) > mostShown {
		b, cut = b[:mostShown], "…"
		for len(b) > mostShown-utf8.UTFMax && !utf8.Valid(b) { // not in the middle of a character
			b = b[:len(b)-1]
		}
	}
	quoted := strconv.Quote(string(b))
	text := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) // nothing is around it, so a quote ends nothing
	s.Text, s.Hex = text+cut, hex.EncodeToString(b)+cut
	return s
}

// explained is an Explanation without the keys that Options do not allow.
type explained struct {
	report.Explanation
	Ranges []keyRange // of the steps; empty without Options.ShowKeys
}

type keyRange struct{ Smallest, Largest *shown }

// explain explains the lookup of a key.
func (h *handler) explain(r *http.Request) (*explained, error) {
	var in struct {
		Key input
		At  string // the sequence number of a snapshot, "" for now: a number in JSON has 53 bits
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	key, err := in.Key.bytes()
	if err != nil {
		return nil, err
	}
	x, err := h.explainAt(key, in.At)
	if err != nil {
		return nil, err
	}
	e := &explained{Explanation: *x}
	for i := range e.Steps {
		s := &e.Steps[i]
		if h.o.ShowKeys {
			ends := keyRange{}
			if s.FileNum > 0 {
				ends = keyRange{show(s.Smallest), show(s.Largest)}
			}
			e.Ranges = append(e.Ranges, ends)
		}
		s.Smallest, s.Largest = nil, nil
	}
	return e, nil
}

// page is a part of the keys with a prefix.
type page struct {
	Entries []entry
	Next    string // in hexadecimal: After of the next request, "" at the end
	Stopped bool   // the search took too long, and Next continues it
}

type entry struct{ Key, Value *shown }

const (
	pageSize = 50
	pageTime = 2 * time.Second // deleted keys are skipped one after another
)

// keys returns the first keys with a prefix, after another key.
func (h *handler) keys(r *http.Request) (*page, error) {
	var in struct {
		Prefix input
		After  string
	}
	if err := read(r, &in); err != nil {
		return nil, err
	}
	prefix, err := in.Prefix.bytes()
	if err != nil {
		return nil, err
	}
	after, err := input{in.After, true}.bytes()
	if err != nil {
		return nil, err
	}
	// Keys with the same prefix are neighbours only in the order of bytes; in others, all keys are walked.
	o, bounds := h.store.Options(), &db.IterOptions{}
	if o.Comparer == nil || o.Comparer.Name == db.BytewiseComparer.Name {
		bounds = db.PrefixBounds(prefix)
	}
	bounds.NoFillCache = true
	it, err := h.store.NewIterator(bounds)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	return collect(ctx, it, prefix, after)
}

// collect returns a page of the iterator's keys with a prefix, after another key.
func collect(ctx context.Context, it *db.Iterator, prefix, after []byte) (*page, error) {
	p := &page{Entries: []entry{}}
	var ok bool
	if len(after) == 0 {
		ok = it.First()
	} else if ok = it.SeekGE(after); ok && bytes.Equal(it.Key(), after) {
		ok = it.Next()
	}
	var last []byte
	for ; ok; ok = it.Next() {
		// Each page passes at least one key, however long that took, so that the last page is reached.
		p.Stopped = last != nil && ctx.Err() != nil
		if has := bytes.HasPrefix(it.Key(), prefix); p.Stopped || has && len(p.Entries) == pageSize {
			p.Next = hex.EncodeToString(last)
			break
		} else if has {
			value := it.Value()
			if !it.Valid() { // it cannot be read
				break
			}
			p.Entries = append(p.Entries, entry{show(it.Key()), show(value)})
		}
		last = append(last[:0], it.Key()...)
	}
	return p, it.Err()
}
