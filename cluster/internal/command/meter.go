package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// The units of a meter are steps of a few nanoseconds.
const (
	meterLook = 1 << 16 // after so much work the context is looked at
	keyWork   = 64      // of reading a key
)

// meter ends the work of a command when its context ends. It looks at the context after some work, not after some
// slots or keys: one slot may have many keys, and one key may be much work. The zero meter never ends.
type meter struct {
	ctx  context.Context
	name string // of the command
	// save returns a function that forgets what was found since. It is called before each group.
	save func() (forget func())

	work int // since the last look
	err  error
}

// spend counts work. It returns false if the context has ended; then err says so.
func (m *meter) spend(work int) bool {
	if m.work += work; m.work < meterLook {
		return true
	}
	m.work = 0
	return m.look() == nil
}

// look returns the error of a command whose time is over. That is no error of the cluster, whose replicas have
// confirmed the read before its work began.
func (m *meter) look() error {
	if m.ctx == nil || m.err != nil {
		return m.err
	}
	switch err := m.ctx.Err(); {
	case errors.Is(err, context.Canceled):
		m.err = kv.ErrClosed
	case err != nil:
		m.err = fmt.Errorf("%s was stopped because it exceeds the time that this node gives to a read: "+
			"use SCAN with a low COUNT and a short pattern", m.name)
	}
	return m.err
}
