package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Future is a proposal on its way.
type Future struct {
	g        *Group
	data     []byte
	done     chan struct{} // closed after the fields below are set
	index    uint64
	response any
	err      error
}

// Wait returns the entry's index and the state machine's response after it is committed and applied here. Otherwise the
// package comment has a table of the errors. It may be called more than once.
func (f *Future) Wait(ctx context.Context) (index uint64, response any, err error) {
	select {
	case <-f.done:
		return f.index, f.response, f.err
	default:
	}
	select {
	case <-f.done:
		return f.index, f.response, f.err
	case <-ctx.Done():
		return 0, nil, fmt.Errorf("%w: %w", kv.ErrUnknown, context.Cause(ctx))
	case <-f.g.dead:
	}
	select { // both may have happened
	case <-f.done:
		return f.index, f.response, f.err
	default:
		return 0, nil, fmt.Errorf("%w: the group was closed", kv.ErrUnknown)
	}
}

// Done is closed when Wait would not block.
func (f *Future) Done() <-chan struct{} { return f.done }

// proposals hands entries to raft in order. A goroutine submits them, because raft may be busy with its disk, and
// another one waits for their ends.
type proposals struct {
	g         *Group
	queue     chan *Future // has room for all that may be in flight
	submitted chan submission

	mu     sync.Mutex
	n      int // in flight
	bytes  int
	closed bool
}

type submission struct {
	f    *Future
	raft raft.ApplyFuture
}

func newProposals(g *Group) *proposals {
	p := &proposals{
		g: g, queue: make(chan *Future, g.o.MaxInFlight), submitted: make(chan submission, g.o.MaxInFlight),
	}
	g.wg.Add(1)
	go p.submit()
	go p.finish()
	return p
}

// Propose proposes an entry, which belongs to raft from now on. It does not block.
func (g *Group) Propose(data []byte) *Future {
	f := &Future{g: g, data: data, done: make(chan struct{})}
	p := g.props
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		f.err = kv.ErrClosed
	case !g.IsLeader():
		f.err = g.notLeader()
	case p.n >= g.o.MaxInFlight || p.n > 0 && p.bytes+len(data) > g.o.MaxInFlightBytes:
		f.err = kv.ErrBusy
	default:
		p.n++
		p.bytes += len(data)
		p.queue <- f
		return f
	}
	close(f.done)
	return f
}

func (p *proposals) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *proposals) submit() {
	defer p.g.wg.Done()
	defer close(p.submitted)
	for {
		select {
		case f := <-p.queue:
			if !p.g.gate.enter() {
				p.end(f, kv.ErrClosed)
				continue
			}
			p.submitted <- submission{f, p.g.raft.Load().ApplyLog(raft.Log{Data: f.data}, 0)}
		case <-p.g.dead:
			p.mu.Lock()
			p.closed = true
			p.mu.Unlock()
			for {
				select {
				case f := <-p.queue:
					p.end(f, kv.ErrClosed)
				default:
					return
				}
			}
		}
	}
}

// finish ends futures in the order of the log. Group.Close does not wait for it: if raft was closed although it
// had not answered, because its disk hangs, it never does.
func (p *proposals) finish() {
	for s := range p.submitted {
		err := s.raft.Error()
		index := s.raft.Index()
		p.g.gate.exit()
		if err == nil {
			s.f.index, s.f.response = index, s.raft.Response()
			p.g.applied(index)
		}
		p.end(s.f, p.g.proposalError(err, index > 0))
	}
}

func (p *proposals) end(f *Future, err error) {
	f.err = err
	p.mu.Lock()
	p.n--
	p.bytes -= len(f.data)
	p.mu.Unlock()
	f.data = nil
	close(f.done)
}

// applied notes that the state machine has applied a command.
func (g *Group) applied(index uint64) {
	for old := g.command.Load(); old < index && !g.command.CompareAndSwap(old, index); old = g.command.Load() {
	}
}

// proposalError translates an error of raft for an entry: see the table in the package comment.
func (g *Group) proposalError(err error, appended bool) error {
	switch {
	case err == nil || errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed):
		return err
	case errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return g.notLeader()
	case errors.Is(err, raft.ErrRaftShutdown) && !appended:
		return kv.ErrClosed
	}
	return fmt.Errorf("%w: %w", kv.ErrUnknown, err)
}
