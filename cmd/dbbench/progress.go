package main

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows on a terminal how far a workload is, and nothing elsewhere.
// Threads add to done; a goroutine of its own draws, so that they never wait
// for the terminal.
type progress struct {
	done *atomic.Int64
	bar  *progressbar.ProgressBar
	stop chan struct{}
	wait sync.WaitGroup
}

// newProgress starts a bar of so many steps or, with a limit, of that time.
func (s *session) newProgress(name string, steps int, limit time.Duration) *progress {
	return startProgress(s.stderr, isTerminal(s.stderr), name, steps, limit)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	progressPeriod = 100 * time.Millisecond
	progressDelay  = 300 * time.Millisecond // what is over sooner shows no bar
)

func startProgress(w io.Writer, show bool, name string, steps int, limit time.Duration) *progress {
	p := &progress{done: new(atomic.Int64), stop: make(chan struct{})}
	if !show {
		return p
	}
	most, began := int64(steps), time.Now()
	if limit > 0 {
		most = limit.Milliseconds()
	}
	p.bar = progressbar.NewOptions64(most, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
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
					_ = p.bar.Set64(min(at, most-1)) // the end is close's
				}
			}
		}
	})
	return p
}

// close takes the bar off the screen.
func (p *progress) close() {
	close(p.stop)
	p.wait.Wait()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
