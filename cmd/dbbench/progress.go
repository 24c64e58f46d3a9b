package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// progress shows the progress of a workload: in a line that is drawn again on a terminal, and elsewhere in a line every
// lineGap. Threads add to done. A separate goroutine draws, so the threads never wait for the terminal.
type progress struct {
	done *atomic.Int64
	stop chan struct{}
	wait sync.WaitGroup
}

// newProgress starts a line about this number of steps or, with a limit, of this duration.
func (s *session) newProgress(name string, steps int, limit time.Duration) *progress {
	return startProgress(s.stderr, isTerminal(s.stderr), name, steps, limit)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	drawGap = 300 * time.Millisecond // shorter workloads show nothing
	lineGap = 10 * time.Second       // between lines in a file or a pipe
)

func startProgress(w io.Writer, terminal bool, name string, steps int, limit time.Duration) *progress {
	p := &progress{done: new(atomic.Int64), stop: make(chan struct{})}
	begin, end, gap := "", "\n", lineGap
	if terminal {
		begin, end, gap = "\r\x1b[K", "", drawGap
	}
	p.wait.Go(func() {
		tick := time.NewTicker(gap)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-p.stop:
				fmt.Fprint(w, begin) // removes the line
				return
			case now := <-tick.C:
				fmt.Fprint(w, begin, name, ": ", p.text(now.Sub(began), int64(steps), limit), end)
			}
		}
	})
	return p
}

// text says which share is done and how much time is left.
func (p *progress) text(took time.Duration, steps int64, limit time.Duration) string {
	share := float64(p.done.Load()) / float64(max(steps, 1))
	if limit > 0 {
		share = took.Seconds() / limit.Seconds()
	}
	left := ""
	if share > 0 && share < 1 {
		left = ", about " + durationText(time.Duration(float64(took)*(1-share)/share)) + " left"
	}
	return fmt.Sprintf("%.0f %% done%s", 100*min(share, 1), left)
}

// durationText formats a time that is only roughly known.
func durationText(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 10:
		return fmt.Sprintf("%.0f s", max(s, 1))
	case s < 100:
		return fmt.Sprintf("%.0f s", 5*math.Ceil(s/5))
	case s < 100*60:
		return fmt.Sprintf("%.0f min", s/60)
	default:
		return fmt.Sprintf("%.0f h", s/3600)
	}
}

// close removes the line from a terminal.
func (p *progress) close() {
	close(p.stop)
	p.wait.Wait()
}
