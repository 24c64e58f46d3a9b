package server

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/command"
)

// largeKeys remembers keys with long values. To read one needs memory before anybody knows how much: the database reads
// a block and copies the value from it. So a read of a key that had a long value when it was last used takes that
// memory out of the budget before it begins. Otherwise a thousand clients that ask for one such key at once would use
// up the memory of the machine, although few of them may have their replies. The methods may be called by any
// goroutine.
type largeKeys struct {
	known atomic.Int64 // keys; most servers have none

	mu    sync.Mutex
	seed  maphash.Seed
	sizes map[uint64]int // guarded by mu: by the hash of the key
}

const (
	largeValue   = 1 << 20
	maxLargeKeys = 4096
	// readCopies is how often a value is in memory while it is read, besides the reply.
	readCopies = 2
)

// note is called with the keys of a command and how long the longest of its values may be.
func (l *largeKeys) note(cmd *command.Command, args [][]byte, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sizes == nil {
		l.seed, l.sizes = maphash.MakeSeed(), map[uint64]int{}
	}
	_ = cmd.Keys(args, func(key []byte) error {
		h := maphash.Bytes(l.seed, key)
		if _, ok := l.sizes[h]; !ok && len(l.sizes) >= maxLargeKeys {
			for other := range l.sizes { // any
				delete(l.sizes, other)
				break
			}
		}
		l.sizes[h] = size
		return nil
	})
	l.known.Store(int64(len(l.sizes)))
}

// learn is called after a read whose reply has so many bytes. That of several keys says something about each only if
// their values are long on average.
func (l *largeKeys) learn(r request, reply int) {
	switch {
	case reply > largeValue:
		if size := reply / max(1, r.command.KeyCount(r.args)); size > largeValue {
			l.note(r.command, r.args, size)
		}
	case r.command.Name == "get" && l.known.Load() > 0: // other replies may be shorter than the value
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.sizes, maphash.Bytes(l.seed, r.args[1]))
		l.known.Store(int64(len(l.sizes)))
	}
}

// expect returns how much memory the values of a command are expected to need; 0 if they are short.
func (l *largeKeys) expect(r request) (bytes int) {
	if l.known.Load() == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = r.command.Keys(r.args, func(key []byte) error {
		bytes += l.sizes[maphash.Bytes(l.seed, key)]
		return nil
	})
	return bytes
}

// longest returns the length of the longest argument.
func longest(args [][]byte) (bytes int) {
	for _, arg := range args {
		bytes = max(bytes, len(arg))
	}
	return bytes
}

// borrow takes the memory that a read with long values needs besides its reply, as much as there can be. It is given
// back by account.
func (c *conn) borrow(values int) bool {
	b := c.memory.budget
	c.memory.lent = 0
	most := b.most(smallCharge+1) - c.held(values) - smallCharge
	c.memory.lent = max(0, min(readCopies*values, int(most)))
	n := c.held(c.memory.replies)
	if c.memory.set(n) {
		return true
	}
	if c.replyRoom(n, c.server.options.roomTime) {
		c.arrived = time.Time{} // the read has its own time
		return true
	}
	c.memory.lent = 0
	return false
}

// giveBack ends borrow.
func (c *conn) giveBack() {
	if c.memory.lent > 0 {
		c.memory.lent = 0
		c.account()
	}
}
