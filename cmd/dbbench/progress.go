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

// progress shows the progress of a workload, on terminals only. Threads add to done. A separate
// goroutine draws, so the threads never wait for the terminal.
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
)

func startProgress(w io.Writer, show bool, name string, steps int, limit time.Duration) *progress {
	p := &progress{done: new(atomic.Int64), stop: make(chan struct{})}
	if !show {
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

// close removes the bar from the screen.
func (p *progress) close() {
	close(p.stop)
	p.wait.Wait()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
