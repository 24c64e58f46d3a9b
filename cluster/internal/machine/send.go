package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/db"
)

// WriteState writes the present state as a stream, for InstallState, and returns the index of its last
// entry. Entries are applied meanwhile. It works without raft.
func (m *Machine) WriteState(ctx context.Context, w io.Writer) (index uint64, err error) {
	c, err := m.checkpoint(ctx)
	if err != nil {
		return 0, fmt.Errorf("write the state of a replica: %w", err)
	}
	err = c.send(ctx, w)
	if err = errors.Join(err, c.remove()); err != nil {
		return 0, fmt.Errorf("write the state of a replica: %w", err)
	}
	return c.at.index, nil
}

// sending is a checkpoint that is being sent.
type sending struct {
	m     *Machine
	dir   string
	at    position // of the checkpoint
	files []file
	bytes uint64
}

// checkpoint makes a checkpoint of the present state.
func (m *Machine) checkpoint(ctx context.Context) (c *sending, err error) {
	st, err := m.use()
	if err != nil {
		return nil, err
	}
	defer st.release()
	c = &sending{m: m, dir: m.path(m.newName(sendPrefix))}
	if _, err = st.db.Checkpoint(ctx, c.dir, nil); err == nil {
		err = c.inspect()
	}
	if err != nil {
		return nil, errors.Join(m.failIfDamaged(err), c.remove(), files.RemoveAll(m.fs, c.dir+".checkpoint"))
	}
	return c, nil
}

// inspect reads what the checkpoint has. It may be older than the present state, and raft must get its own index.
func (c *sending) inspect() error {
	d, err := db.Open(c.dir, &db.Options{FS: c.m.fs, ReadOnly: true, Cache: db.CacheOptions{Size: -1}})
	if err != nil {
		return err
	}
	c.at, err = readPosition(d)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	c.files, c.bytes, err = listFiles(c.m.fs, c.dir)
	return err
}

func (c *sending) send(ctx context.Context, w io.Writer) error {
	h := header{files: uint32(len(c.files)), index: c.at.index, term: c.at.term, bytes: c.bytes}
	return c.m.failIfDamaged(newSender(ctx, w, c.m.o.BytesPerSecond).send(c.m.fs, c.dir, c.files, h))
}

func (c *sending) remove() error { return files.RemoveAll(c.m.fs, c.dir) }

// reader returns a reader of the stream. Its Close removes the checkpoint.
func (c *sending) reader() *presentReader {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	p := &presentReader{PipeReader: r, m: c.m, cancel: cancel, removed: make(chan error, 1)}
	go func() {
		_ = w.CloseWithError(c.send(ctx, w))
		p.removed <- c.remove()
	}()
	return p
}

// presentReader is the stream of a checkpoint.
type presentReader struct {
	*io.PipeReader
	m       *Machine
	cancel  func()
	removed chan error
	once    sync.Once
	err     error
}

// Close ends the stream and removes the checkpoint.
func (p *presentReader) Close() error {
	p.once.Do(func() {
		p.cancel()
		p.err = errors.Join(p.PipeReader.Close(), <-p.removed)
	})
	return p.err
}

// meta returns what raft knows of a snapshot.
func (at *position) meta(id string, size int64) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: id, Index: at.index, Term: at.term,
		Configuration: at.configuration.Clone(), ConfigurationIndex: at.configIndex, Size: size,
	}
}
