package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// isTerminal reports whether a person reads w directly.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// noColor follows the convention of no-color.org, and terminals that know no colours.
func noColor() bool { return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" }

// progress shows on a terminal how far long work is.
type progress struct {
	w            io.Writer // nil: it shows nothing
	name, unit   string
	total        uint64 // 0: not known
	done, bytes  uint64
	began, drawn time.Time
	now          func() time.Time
}

const (
	progressDelay  = 500 * time.Millisecond // shorter work shows nothing
	progressPeriod = 200 * time.Millisecond
)

// progress starts a line about work that counts units, such as keys.
func (a *app) progress(name, unit string, total uint64) *progress {
	p := &progress{name: name, unit: unit, total: total, now: a.now}
	if isTerminal(a.stderr) && !a.flags.quiet {
		p.w, p.began = a.stderr, a.now()
	}
	return p
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
	fmt.Fprintf(p.w, "\r\x1b[K%s", p.line(now))
}

func (p *progress) line(now time.Time) string {
	if p.unit == "" {
		return fmt.Sprintf("%s: %v", p.name, now.Sub(p.began).Round(time.Second))
	}
	line := fmt.Sprintf("%s: %s", p.name, bench.Counted(p.done, p.unit))
	if p.total > 0 {
		line += fmt.Sprintf(" of %s (%.0f %%)", bench.Grouped(p.total), min(100, 100*float64(p.done)/float64(p.total)))
	}
	seconds := now.Sub(p.began).Seconds()
	if p.bytes > 0 {
		line += fmt.Sprintf(", %s, %s/s", bench.SizeText(p.bytes), bench.SizeText(uint64(float64(p.bytes)/seconds)))
	}
	return line
}

// close removes the line.
func (p *progress) close() {
	if p.w != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// waiting shows for how long work runs that reports no progress, until stop is called.
func (a *app) waiting(name string) (stop func()) {
	return a.watch(name, "", func() (done, bytes uint64) { return 0, 0 })
}

// watch shows the progress of work that counts elsewhere, until stop is called.
func (a *app) watch(name, unit string, count func() (done, bytes uint64)) (stop func()) {
	p := a.progress(name, unit, 0)
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
				p.done, p.bytes = count()
				p.add(0, 0)
			}
		}
	}()
	return func() { close(end); <-ended; p.close() }
}
