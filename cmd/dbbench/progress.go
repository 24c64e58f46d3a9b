package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of a workload: a bar on a terminal, and elsewhere a line every lineGap.
// Threads add to done. A separate goroutine draws, so the threads never wait for the terminal.
type progress struct {
	done *atomic.Int64
	bar  *progressbar.ProgressBar
	stop chan struct{}
	wait sync.WaitGroup
}

// newProgress starts a bar of this number of steps or, with a limit, of this duration.
func (s *session) newProgress(name string, steps int, limit time.Duration) *progress {
	return startProgress(s.stderr, isTerminal(s.stderr), name, steps, limit)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	progressPeriod = 100 * time.Millisecond
	progressDelay  = 300 * time.Millisecond // shorter workloads show no bar
	lineGap        = 10 * time.Second       // between lines in a file or a pipe
)

func startProgress(w io.Writer, show bool, name string, steps int, limit time.Duration) *progress {
	p := &progress{done: new(atomic.Int64), stop: make(chan struct{})}
	if !show {
		p.wait.Go(func() { p.writeLines(w, name, int64(steps), limit) })
		return p
	}
	end, began := int64(steps), time.Now()
	if limit > 0 {
		end = limit.Milliseconds()
	}
	p.bar = progressbar.NewOptions64(end, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(progressPeriod/2))
	p.wait.Go(func() {
		tick := time.NewTicker(progressPeriod)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case now := <-tick.C:
				at := p.done.Load()
				if limit > 0 {
					at = now.Sub(began).Milliseconds()
				}
				if now.Sub(began) >= progressDelay {
					_ = p.bar.Set64(min(at, end-1)) // close removes the bar
				}
			}
		}
	})
	return p
}

// writeLines writes the share that is done and the time that is left.
func (p *progress) writeLines(w io.Writer, name string, steps int64, limit time.Duration) {
	tick := time.NewTicker(lineGap)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			took := now.Sub(began)
			share := float64(p.done.Load()) / float64(max(steps, 1))
			if limit > 0 {
				share = took.Seconds() / limit.Seconds()
			}
			left := ""
			if share > 0 && share < 1 {
				left = ", about " + durationText(time.Duration(float64(took)*(1-share)/share)) + " left"
			}
			fmt.Fprintf(w, "%s: %.0f %% done%s\n", name, 100*min(share, 1), left)
		}
	}
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

// close removes the bar from the screen.
func (p *progress) close() {
	close(p.stop)
	p.wait.Wait()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
