package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

func TestAMutexIsHeldByOne(t *testing.T) {
	m := newMutex()
	n := 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 0 {
					go cancel() // some give up at any time
				}
				if m.LockContext(ctx) == nil {
					n++
					m.Unlock()
				}
				m.Lock()
				n--
				m.Unlock()
				cancel()
			}
		})
	}
	group.Wait()
	m.Lock()
	defer m.Unlock()
	require.LessOrEqual(t, n, 0)
	require.Zero(t, m.waiting.Load())
}

// The bug: a pipeline waited for 6 s behind a long DEL in its group, without an end.
func TestACommandWaitsForOthersUntilItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.mustPut("a", "1")
		entered, leave := make(chan struct{}), make(chan struct{})
		long := make(chan error, 1)
		go func() {
			_, err := g.Update(context.Background(), func(kv.Tx) error {
				close(entered)
				<-leave
				return nil
			})
			long <- err
		}()
		<-entered
		for name, call := range map[string]func(ctx context.Context) error{
			"Update": func(ctx context.Context) error {
				_, err := g.Update(ctx, func(kv.Tx) error { return errors.New("it must not begin") })
				return err
			},
			"Watch": func(ctx context.Context) error { _, err := g.Watch(ctx, nil); return err },
			"Meta":  func(ctx context.Context) error { _, err := g.MetaCAS(ctx, "m", nil, nil); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			begun := time.Now()
			require.ErrorIs(t, call(ctx), kv.ErrLate, name)
			require.Equal(t, 2*time.Second, time.Since(begun))
			cancel()
		}
		close(leave)
		require.NoError(t, <-long)
		g.mustPut("a", "2")
	})
}

// A command that takes too long is not done at all: nobody sees a part of it.
func TestACommandThatTakesTooLongIsNotDone(t *testing.T) {
	many := 10 * workLook
	for name, f := range map[string]func(tx kv.Tx) error{
		"Get": func(tx kv.Tx) (err error) {
			for i := 0; i < many && err == nil; i++ {
				_, _, err = tx.Get([]byte("a"))
			}
			return err
		},
		"Get without a look at the error": func(tx kv.Tx) error {
			for range many {
				_, _, _ = tx.Get([]byte("a"))
			}
			return nil
		},
		"Put": func(tx kv.Tx) error {
			for range many {
				tx.Put([]byte("b"), kv.Value{})
			}
			return nil
		},
		"Delete": func(tx kv.Tx) error {
			for range many {
				tx.Delete([]byte("b"))
			}
			return nil
		},
		"long values": func(tx kv.Tx) (err error) {
			for i := 0; i < 10 && err == nil; i++ {
				_, _, err = tx.Get([]byte("long"))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			require.NoError(t, g.put("long", string(make([]byte, workBytes*workLook)), 0).Wait(t.Context()))
			g.mustPut("a", "1")
			g.o.MaxEvaluation = 1
			_, err := g.Update(t.Context(), func(tx kv.Tx) error {
				tx.Put([]byte("a"), kv.Value{Data: []byte("2")})
				return f(tx)
			})
			require.ErrorIs(t, err, kv.ErrTooLong)
			require.Equal(t, "1", g.get("a"))
		})
	}
}

// The time of a read ends while it reads.
func TestAReadEndsWhenItsTimeIsOver(t *testing.T) {
	for _, stale := range []bool{false, true} {
		g := newRig(t)
		g.mustPut("a", "1")
		g.log.set(func() { g.log.leads = !stale })
		ctx, cancel := context.WithCancel(t.Context())
		err := g.View(ctx, stale, func(r kv.Reader) (err error) {
			cancel()
			for range workLook {
				_, err = read(r, "a")
			}
			return err
		})
		require.ErrorIs(t, err, kv.ErrTooLong)
	}
}
