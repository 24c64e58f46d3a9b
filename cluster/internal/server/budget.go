package server

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// budget bounds the memory of all clients together: what they have sent of unfinished requests and queued by MULTI,
// what they watch, and replies that they have not read. Each connection has freeMemory besides.
//
// If it is used up, connections that need more wait, and their clients are not read from. Those that hold most need
// most, as buffers grow by doubling, and a part of the budget is for those that need little. A client that has stalled
// while it holds memory loses its connection meanwhile, the largest first. A client that waits too long gets an error.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64

	waiting atomic.Int32 // connections that wait for memory
	mu      sync.Mutex
	freed   chan struct{} // guarded by mu: closed when memory is given back, if somebody waits
}

const (
	// freeMemory is what a connection has without a charge: its first buffers.
	freeMemory = initialBuffer
	// smallCharge is up to what a connection may use the last part of a budget, which is a smallPart of it.
	smallCharge = 64 << 10
	smallPart   = 16
)

// charge is what one user of a budget has taken. It is used by one goroutine, but read may be called by any.
type charge struct {
	budget *budget
	held   atomic.Int64
}

func (c *charge) read() int64 { return c.held.Load() }

// fits reports whether a charge of n bytes can be possible at all.
func (b *budget) fits(n int64) bool { return n <= b.most(n) }

func (b *budget) most(n int64) int64 {
	if n > smallCharge {
		return b.limit.Load() / smallPart * (smallPart - 1)
	}
	return b.limit.Load()
}

// set makes the charge n bytes, and returns false without a change if the budget has too little left.
func (c *charge) set(n int64) bool {
	more := n - c.held.Load()
	if more == 0 {
		return true
	}
	if more < 0 {
		c.force(n)
		return true
	}
	// It is compared before it is added: a large request that is refused must not keep others from a small one.
	for most := c.budget.most(n); ; {
		used := c.budget.used.Load()
		if used+more > most {
			return false
		}
		if c.budget.used.CompareAndSwap(used, used+more) {
			c.held.Store(n)
			return true
		}
	}
}

// force is set even beyond the limit. It is for what is used already.
func (c *charge) force(n int64) {
	more := n - c.held.Load()
	c.budget.used.Add(more)
	c.held.Store(n)
	if more < 0 {
		c.budget.wake()
	}
}

func (b *budget) wake() {
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// change returns a channel that is closed when memory is given back.
func (b *budget) change() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// The times of a wait for memory.
const (
	roomTime = 5 * time.Second        // that a wait takes at most
	roomLook = 100 * time.Millisecond // between looks for a client that has stalled
	// stalledReplies and stalledRequest are for how long a client may not read a byte of its replies, or not send one
	// of its request, before it may lose its connection to others that need memory. A part of a reply that is read may
	// fill the buffers of the system, and a slow network empties them in seconds.
	stalledReplies = 2 * time.Second
	stalledRequest = 5 * time.Second
)

// replyRoom is room for a reply. Replies for which a client does not wait for long enough fail, and so do those after
// one that has just failed: a pipeline does not wait for each of them.
func (c *conn) replyRoom(n int64, most time.Duration) bool {
	if !c.memory.refused.IsZero() && time.Since(c.memory.refused) < time.Second {
		return c.memory.set(n)
	}
	if c.room(n, most) {
		return true
	}
	c.memory.refused = time.Now()
	return false
}

// timeOf returns how long a command that writes may wait for the memory of its reply. It is carried out then, so its
// client must not have sent it again by that time.
func (c *conn) timeOf(begun time.Time) time.Duration {
	return min(c.server.options.roomTime, time.Until(begun.Add(c.server.options.WriteTimeout)))
}

// room makes the charge n bytes. If there is too little left, it waits for most, while the server closes clients that
// have stalled.
func (c *conn) room(n int64, most time.Duration) bool {
	if c.memory.set(n) {
		return true
	}
	b := c.memory.budget
	if !b.fits(n) {
		return false
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	c.server.stats.memoryWaits.Add(1)
	end := time.NewTimer(most)
	defer end.Stop()
	for {
		freed := b.change()
		if c.memory.set(n) {
			return true
		}
		c.server.relieve()
		look := time.NewTimer(roomLook)
		select {
		case <-freed:
		case <-look.C:
		case <-end.C:
			look.Stop()
			return false
		case <-c.gone:
			look.Stop()
			return false
		}
		look.Stop()
	}
}

// memory is what a connection holds. Its goroutine uses it, but other ones see the charge and the progress.
type memory struct {
	charge
	progress
	replies int       // bytes that out has been granted
	lent    int       // bytes that the replies of EXEC have been granted
	args    int       // of requests, that there was room for when they were counted
	refused time.Time // when a reply last waited and got no memory
	// shed is set when the connection is closed because of what it holds. It is guarded by the server's mu.
	shed bool
}

// held returns the charge of a connection whose replies have so many bytes.
func (c *conn) held(replies int) int64 {
	return int64(c.in.memory() + c.session.queueBytes + c.session.watchBytes + max(0, replies-freeMemory) +
		c.memory.lent)
}

// account makes the charge what the connection holds.
func (c *conn) account() {
	c.out.Release()
	c.memory.replies = cap(c.out.Bytes)
	c.memory.force(c.held(c.memory.replies))
}

// countArgs makes many arguments a part of the charge.
func (c *conn) countArgs() {
	if n := cap(c.in.args); n != c.memory.args {
		if c.memory.args = n; n > manyArgs {
			c.account()
		}
	}
}

// grant is called before replies use so many bytes.
func (c *conn) grant(bytes int) bool {
	if c.executing { // what has been done is replied to
		c.memory.force(c.held(bytes))
	} else if !c.memory.set(c.held(bytes)) {
		return false
	}
	c.memory.replies = bytes
	return true
}

// errNoRoom ends the evaluation of a command for whose reply there is no memory.
var errNoRoom = errors.New("TRYAGAIN the memory for requests and replies of clients is used up; nothing was done")

// undo removes a reply that begins at start and for which there was no memory, and returns how many bytes it needs.
func (c *conn) undo(start int) (missing int) {
	missing = c.out.Missing - start
	c.out.Bytes = c.out.Bytes[:min(start, len(c.out.Bytes))]
	c.account()
	return missing
}

// enlarge waits for the memory of a reply of so many bytes. out must be empty.
func (c *conn) enlarge(bytes int, most time.Duration) bool {
	if !c.replyRoom(c.held(bytes), most) {
		return false
	}
	c.out.Bytes = nil
	c.out.Granted(bytes)
	c.memory.replies = bytes
	return true
}

// reserve takes the memory for the next fill.
func (c *conn) reserve() error {
	c.out.Release()
	c.memory.replies = cap(c.out.Bytes)
	if c.room(c.held(c.memory.replies), c.server.options.roomTime) {
		return nil
	}
	c.fail(fmt.Sprintf("TRYAGAIN the requests and replies of clients of this node exceed %d bytes together",
		c.memory.budget.limit.Load()))
	if c.write() == nil {
		c.farewell()
	}
	return errNoMemory
}

var errNoMemory = errors.New("the memory for clients is used up")

// sendPart is how much of a reply is sent at a time, so that it is seen whether the client reads.
const sendPart = 256 << 10

// transmit sends replies.
func (c *conn) transmit(b []byte) error {
	held := c.transactionBytes()
	if len(b) <= freeMemory && held == 0 {
		_, err := c.nc.Write(b)
		return err
	}
	p := &c.memory.progress
	defer p.unsent.Store(0)
	for len(b) > 0 {
		p.sending.Store(c.server.sinceBegin())
		p.unsent.Store(int64(len(b) + held))
		n, err := c.nc.Write(b[:min(len(b), sendPart)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// transactionBytes is what a transaction that the client has not ended holds; 0 if that is little.
func (c *conn) transactionBytes() int {
	if n := c.session.queueBytes + c.session.watchBytes; n > freeMemory {
		return n
	}
	return 0
}

// receive reads what has arrived of a request.
func (c *conn) receive() error {
	n := c.transactionBytes()
	if c.in.unread() > 0 {
		n += c.in.memory()
	}
	if n > 0 {
		c.memory.waiting.Store(c.server.sinceBegin())
		c.memory.partial.Store(int64(n))
		defer c.memory.partial.Store(0)
	}
	return c.in.fill()
}

// begin is what the times of progress count from. The difference of two times of a process does not change when
// somebody sets the clock; otherwise all clients would seem to have stalled.
var begin = time.Now()

// sinceBegin returns the time since begin in nanoseconds.
func (s *Server) sinceBegin() int64 { return int64(s.now().Sub(begin)) }

// progress is what other goroutines see of a client that holds memory. Times are those of sinceBegin.
type progress struct {
	unsent  atomic.Int64 // bytes of replies that the client has not read; 0: they are not being sent
	sending atomic.Int64 // since when none of them was read
	partial atomic.Int64 // bytes that an unfinished request or transaction uses; 0: nothing is waited for
	waiting atomic.Int64 // since when no byte of it has come
}

// stalled returns how much a client holds that has stalled, and with what.
func (p *progress) stalled(now int64) (replies, request int64) {
	since := func(at *atomic.Int64) time.Duration { return time.Duration(now - at.Load()) }
	if replies = p.unsent.Load(); replies > 0 && since(&p.sending) < stalledReplies {
		replies = 0
	}
	if request = p.partial.Load(); request > 0 && since(&p.waiting) < stalledRequest {
		request = 0
	}
	return replies, request
}

// relieve closes the client that has the most unread replies of those that have stalled, or, if there is none, the one
// with the largest unfinished request or transaction. It closes one at a time: the memory of the last one must be free
// first.
func (s *Server) relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sinceBegin()
	var slow, half *conn
	var most, mostHalf int64
	for c := range s.places.all {
		if c.memory.shed {
			return
		}
		replies, request := c.memory.stalled(now)
		if replies > most {
			slow, most = c, replies
		}
		if request > mostHalf {
			half, mostHalf = c, request
		}
	}
	reason := "it does not read its replies"
	if slow == nil {
		slow, most, reason = half, mostHalf, "it does not send the rest of a request or transaction"
	}
	if slow == nil {
		return
	}
	slow.memory.shed = true
	s.stats.shed.Add(1)
	s.options.Logger.Warn("closed a client, because the memory for clients is used up", "remote", slow.info.addr,
		"reason", reason, "bytes", most, slog.Int64("limit", s.memory.limit.Load()))
	slow.hangUp()
}
