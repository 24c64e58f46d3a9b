package machine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// incoming is a state that is being received from raft, in a directory of its own.
type incoming struct {
	m    *Machine
	name string
	at   position // as raft has it; without a clock
	w    *io.PipeWriter
	size int64 // what was written to w

	done chan struct{} // closed when the stream was unpacked or refused; then err is set
	err  error
	h    header
}

// newIncoming begins to receive a state. One that was received before and not restored is removed.
func (m *Machine) newIncoming(at position) *incoming {
	r, w := io.Pipe()
	in := &incoming{m: m, name: m.newName(statePrefix), at: at, w: w, done: make(chan struct{})}
	m.setIncoming(nil)
	go func() {
		defer close(in.done)
		in.h, in.err = receive(context.Background(), m.fs, m.path(in.name), r)
		_ = r.CloseWithError(in.err)
	}()
	return in
}

// end waits until the stream is unpacked, and keeps the state for Restore.
func (in *incoming) end() error {
	_ = in.w.Close()
	<-in.done
	err := in.err
	if err == nil && (in.h.index != in.at.index || in.h.term != in.at.term) {
		err = fmt.Errorf("%w: it ends with entry %d of term %d, and raft expects entry %d of term %d", ErrStream, in.h.index, in.h.term, in.at.index, in.at.term)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("receive a state: %w", err), in.remove())
	}
	in.m.setIncoming(in)
	return nil
}

// cancel ends the stream and removes what came of it.
func (in *incoming) cancel() error {
	_ = in.w.CloseWithError(errors.New("the snapshot was cancelled"))
	<-in.done
	return in.remove()
}

func (in *incoming) remove() error { return files.RemoveAll(in.m.fs, in.m.path(in.name)) }

// setIncoming replaces the state that was received and not restored.
func (m *Machine) setIncoming(in *incoming) {
	m.mu.Lock()
	old := m.incoming
	m.incoming = in
	m.mu.Unlock()
	if old == nil {
		return
	}
	if err := old.remove(); err != nil {
		m.logger.Warn("a state that was received could not be removed", "dir", old.name, "err", err)
	}
}

// openIncoming returns the state that was received, by its name.
func (m *Machine) openIncoming(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.errLocked(); err != nil {
		return nil, nil, err
	}
	if m.incoming == nil || m.incoming.name != id {
		return nil, nil, fmt.Errorf("there is no snapshot %q", id)
	}
	return m.incoming.at.meta(id, m.incoming.size), &incomingReader{m.incoming}, nil
}

// incomingReader names a state that was received. It has no bytes, because they are unpacked already.
type incomingReader struct{ in *incoming }

// Read fails.
func (*incomingReader) Read([]byte) (int, error) {
	return 0, errors.New("a state that was received can only be restored")
}

// Close does nothing.
func (*incomingReader) Close() error { return nil }

// Restore implements raft.FSM. It replaces the state by one that was received. If it fails, the old state stays
// in force, or the machine has failed. It does not wait for those who read the old state.
func (m *Machine) Restore(rc io.ReadCloser) error {
	var r io.Reader = rc
	if w, ok := rc.(raft.ReadCloserWrapper); ok {
		r = w.WrappedReadCloser()
	}
	switch r := r.(type) {
	case *incomingReader:
		return m.restore(r.in)
	case *presentReader:
		if r.m == m {
			return nil // raft restores its own snapshot when it begins: it is in force
		}
	}
	return m.InstallState(context.Background(), rc)
}

// restore puts a state in force that came from raft.
func (m *Machine) restore(in *incoming) error {
	m.mu.Lock()
	if m.incoming == in {
		m.incoming = nil
	}
	err := m.errLocked()
	m.mu.Unlock()
	if err != nil {
		return errors.Join(err, in.remove())
	}
	return m.install(in.name, in.at, true)
}

// InstallState replaces the state by that of a stream, which WriteState wrote on another replica, to
// heal this one. raft must not run. It works if the machine has failed, and it then works again. If it
// fails, the old state stays in force, or the machine has failed.
func (m *Machine) InstallState(ctx context.Context, r io.Reader) error {
	if err := m.Err(); errors.Is(err, kv.ErrClosed) {
		return err
	}
	name := m.newName(statePrefix)
	h, err := receive(ctx, m.fs, m.path(name), r)
	if err != nil {
		return errors.Join(fmt.Errorf("receive a state: %w", err), files.RemoveAll(m.fs, m.path(name)))
	}
	return m.install(name, position{index: h.index, term: h.term}, false)
}

// install puts the state in a directory in force, which must have the position at. A configuration
// index of 0 in at means any. forward refuses to go back.
func (m *Machine) install(name string, at position, forward bool) error {
	st, err := m.openState(name)
	if err == nil {
		if err = checkPosition(st.at.Load(), at); err != nil {
			err = errors.Join(err, st.db.Close())
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore a state: %w", err), files.RemoveAll(m.fs, m.path(name)))
	}
	if err := m.replace(st, forward); err != nil {
		return fmt.Errorf("restore a state: %w", err)
	}
	return nil
}

func checkPosition(got *position, want position) error {
	if got.index != want.index || got.term != want.term || want.configIndex != 0 && got.configIndex != want.configIndex {
		return fmt.Errorf("%w: its database ends with entry %d of term %d and configuration %d, and entry %d of term %d and configuration %d are announced",
			ErrStream, got.index, got.term, got.configIndex, want.index, want.term, want.configIndex)
	}
	return nil
}

// replace puts another state in force.
func (m *Machine) replace(st *state, forward bool) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.checkReplace(st.at.Load().index, forward); err != nil {
		return errors.Join(err, st.db.Close(), files.RemoveAll(m.fs, m.path(st.name)))
	}
	if maybe, err := writePointer(m.fs, m.o.Dir, pointer{name: st.name}); err != nil {
		err = errors.Join(err, st.db.Close())
		if maybe { // either state may be in force: Open finds out
			return m.fail(err)
		}
		return errors.Join(err, files.RemoveAll(m.fs, m.path(st.name)))
	}
	m.mu.Lock()
	old := m.present
	m.present, m.err = st, nil
	m.mu.Unlock()
	m.waiters.restart(st.at.Load().index)
	m.retire(old)
	return nil
}

// checkReplace returns why a state that ends with an index cannot replace the present one.
func (m *Machine) checkReplace(index uint64, forward bool) error {
	if err := m.Err(); errors.Is(err, kv.ErrClosed) {
		return err
	}
	if applied := m.present.at.Load().index; forward && index < applied {
		return fmt.Errorf("the state ends with entry %d, and this replica has applied entry %d", index, applied)
	}
	return nil
}

// retire closes and removes a state when its last user has left.
func (m *Machine) retire(st *state) {
	m.retired.Add(1)
	st.release()
	go func() {
		defer m.retired.Done()
		<-st.unused
		err := errors.Join(st.db.Close(), files.RemoveAll(m.fs, m.path(st.name)))
		if err != nil {
			m.logger.Warn("an old state could not be closed and removed", "dir", st.name, "err", err)
		}
	}()
}
