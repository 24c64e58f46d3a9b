package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// progress shows on a terminal how far long work is.
type progress struct {
	w            io.Writer // nil: it shows nothing
	width        int       // of the terminal, in columns
	name, unit   string
	part         func() float64 // of the work that is done, from 0 to 1; nil: not known. It is called for each line
	key          []byte         // the last one, for part
	done, bytes  uint64
	began, drawn time.Time
	now          func() time.Time
}

const (
	progressDelay  = 500 * time.Millisecond // shorter work shows nothing
	progressPeriod = 200 * time.Millisecond
)

// progress starts a line about work that counts units, such as keys.
func (a *app) progress(name, unit string) *progress {
	p := &progress{name: name, unit: unit, now: a.now}
	if isTerminal(a.stderr) && !a.flags.quiet {
		p.w, p.width, p.began = a.stderr, terminalWidth(a.stderr), a.now()
	}
	return p
}

// progressTo is progress of work whose number of units is known.
func (a *app) progressTo(name, unit string, total uint64) *progress {
	p := a.progress(name, unit)
	p.part = func() float64 { return float64(p.done) / float64(max(total, 1)) }
	return p
}

// progressOver is progress of work that passes the entries within bounds in their order. The part is that of the bytes
// in tables and memory.
func (a *app) progressOver(name, unit string, store *db.DB, bounds *db.IterOptions) *progress {
	p := a.progress(name, unit)
	if p.w != nil {
		p.part = passed(store, bounds, p)
	}
	return p
}

// passed returns which part of the bytes within bounds is before the last key of p.
func passed(store *db.DB, bounds *db.IterOptions, p *progress) func() float64 {
	bytes := func(limit []byte) float64 {
		e, _ := store.EstimateSize(bounds.LowerBound, limit) // the work itself reports the error
		return float64(e.Tables + e.Memtables)
	}
	all := bytes(bounds.UpperBound)
	return func() float64 { return bytes(p.key) / max(all, 1) }
}

// entry counts an entry of work over entries.
func (p *progress) entry(key, value []byte) {
	p.key = key
	p.add(1, uint64(len(key)+len(value)))
}

// add counts, and draws the line if the last one is old enough.
func (p *progress) add(n, bytes uint64) {
	p.done += n
	p.bytes += bytes
	if p.w == nil || n > 0 && p.done%64 != 0 && bytes < 1<<16 {
		return
	}
	now := p.now()
	if now.Sub(p.began) < progressDelay || now.Sub(p.drawn) < progressPeriod {
		return
	}
	p.drawn = now
	line := p.line(now)
	if p.width > 0 { // a line that wraps would stay
		line = runewidth.Truncate(line, p.width-1, "")
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

func (p *progress) line(now time.Time) string {
	line, sep := p.name, ": "
	if p.part != nil {
		line, sep = fmt.Sprintf("%s: %.0f %%", p.name, 100*min(1, p.part())), ", "
	}
	if p.unit == "" {
		return line + sep + durationText(now.Sub(p.began).Round(time.Second))
	}
	line += sep + counted(p.done, p.unit)
	if p.bytes > 0 {
		line += fmt.Sprintf(", %s, %s/s", sizeText(p.bytes), sizeText(uint64(float64(p.bytes)/now.Sub(p.began).Seconds())))
	}
	return line
}

// close removes the line.
func (p *progress) close() {
	if p.w != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// waiting shows for how long work runs, and how much of it is done if part is not nil, until stop is called. It calls
// part in another goroutine.
func (a *app) waiting(name string, part func() float64) (stop func()) {
	p := a.progress(name, "")
	p.part = part
	if p.w == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressPeriod)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				p.add(0, 0)
			}
		}
	}()
	return func() { close(end); <-ended; p.close() }
}

// compacting returns how much of a compaction of a range is done. It is an estimate: each level is merged into the next
// one that has tables, and levels that do not overlap move without being read.
func compacting(store *db.DB, bounds *db.IterOptions) func() float64 {
	before := store.Metrics()
	share := 1.0
	if _, all := before.AllTables(); all > 0 && (bounds.LowerBound != nil || bounds.UpperBound != nil) {
		e, _ := store.EstimateSize(bounds.LowerBound, bounds.UpperBound)
		share = min(1, float64(e.Tables)/float64(all))
	}
	total := compactedBytes(before)
	return func() float64 {
		c := store.Metrics().Compactions
		read := c.BytesRead - before.Compactions.BytesRead
		for _, r := range c.Running {
			read += r.BytesRead
		}
		return min(0.99, float64(read)/max(share*total, 1)) // the end is reported by itself
	}
}

// checking returns how much of a check is done. Each table is read once for itself, and once more to compare it with
// others.
func checking(store *db.DB, read *atomic.Uint64) func() float64 {
	_, all := store.Metrics().AllTables()
	before := read.Load()
	return func() float64 { return min(0.99, float64(read.Load()-before)/float64(max(2*all, 1))) }
}

// compactedBytes returns about how many bytes a compaction of everything reads.
func compactedBytes(m *db.Metrics) (read float64) {
	above, levels := 0.0, 0
	for _, l := range m.Levels {
		if l.Bytes == 0 {
			continue
		}
		if levels++; levels > 1 {
			read += above + float64(l.Bytes)
		}
		above += float64(l.Bytes)
	}
	if levels == 1 {
		return above // the only level is written again
	}
	return read
}

// countingFS counts the bytes that are read from files.
type countingFS struct {
	vfs.FS
	read *atomic.Uint64
}

// Open implements vfs.FS.
func (c countingFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countingFile{f, c.read}, nil
}

type countingFile struct {
	vfs.File
	read *atomic.Uint64
}

// ReadAt implements io.ReaderAt.
func (c countingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.read.Add(uint64(n))
	return n, err
}
