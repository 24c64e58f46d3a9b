package replica

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// work ends commands that take too long. It looks at the clock after some keys and bytes only.
type work struct {
	ctx   context.Context // nil: without end
	limit time.Duration   // of a command that others wait for; 0: none
	done  int             // since the last look
	began time.Time       // of the first look
}

const (
	workLook  = 64 // a key is 1, a microsecond or a few
	workBytes = 4 << 10
)

// spend notes that a key was read whose value has a length. It returns kv.ErrTooLong if the command has to end.
func (w *work) spend(length int) error {
	if w.done += 1 + length/workBytes; w.done < workLook || w.ctx == nil {
		return nil
	}
	w.done = 0
	if w.ctx.Err() != nil {
		return kv.ErrTooLong
	}
	if w.limit == 0 {
		return nil
	}
	if w.began.IsZero() {
		w.began = time.Now()
	}
	if time.Since(w.began) > w.limit {
		return kv.ErrTooLong
	}
	return nil
}
