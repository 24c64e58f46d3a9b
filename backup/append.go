package backup

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// pending is the content of the next segment. Its changes are in memory. Its tables are in the directory of the
// database, which keeps them for the cursor.
type pending struct {
	content []byte
	changes uint64
	tables  []string // paths
	last    uint64   // of the changes
	marks   []mark
	arrived mark // of the last change
}

const (
	// markEvery is the resolution of the times of changes. idleMark is the longest time between two marks, even if
	// nothing changes.
	markEvery = time.Second
	idleMark  = 10 * time.Minute
)

// gather adds the changes that exist. With wait it also waits for more until the context is done. full is true if it
// ended because the segment is full.
func (a *archiver) gather(ctx context.Context, wait bool) (full bool, err error) {
	p := &a.pending
	since := a.last
	if p.changes > 0 {
		since = p.last
	}
	if len(p.content) >= segmentSize {
		return true, nil
	}
	for c, err := range a.d.Changes(ctx, since, &db.ChangeOptions{Wait: wait}) {
		if err != nil {
			return false, parted(err)
		}
		if err := p.add(c, a.now()); err != nil {
			return false, err
		}
		if len(p.content) >= segmentSize {
			return true, nil
		}
	}
	return false, nil
}

// add adds a change that has arrived.
func (p *pending) add(c db.Change, now time.Time) error {
	next, err := take(c, len(p.tables))
	if err != nil {
		return err
	}
	if p.changes > 0 && now.Truncate(markEvery) != p.arrived.at.Truncate(markEvery) {
		p.marks = append(p.marks, p.arrived)
	}
	p.content = next.append(p.content)
	p.tables = append(p.tables, c.Tables()...)
	p.changes++
	p.last, p.arrived = c.Last, mark{now.UTC(), c.Last}
	return nil
}

// store stores the gathered changes as a segment, and moves the cursor. stored is false if another call of Archive has
// stored a segment with that number.
func (a *archiver) store(ctx context.Context) (stored bool, err error) {
	p := a.pending
	idle := p.changes == 0
	now := a.now().UTC()
	if idle && now.Sub(a.lastMark) < idleMark {
		return true, a.stillThere(ctx)
	}
	a.pending = pending{}
	h := &segmentHead{
		stream: a.id, number: a.number + 1, after: a.last, last: p.last, previous: a.sum,
		changes: p.changes, size: int64(len(p.content)), body: hexSum(p.content), marks: p.marks,
		prefixes: a.d.ExpiryPrefixes(),
	}
	if idle {
		h.last = a.last
	} else {
		h.marks = append(h.marks, p.arrived)
	}
	h.marks = append(h.marks, mark{now, h.last})
	err = a.stillThere(ctx)
	if err == nil && len(p.tables) > 0 {
		err = a.storeWithTables(ctx, h, p)
	} else if err == nil {
		err = a.storeHead(ctx, h, p)
	}
	if errors.Is(err, fs.ErrExist) {
		a.detach()
		return false, nil
	}
	if err != nil {
		a.detach()
		return false, err
	}
	a.note(h)
	a.info.Segments++
	a.info.Changes += int(h.changes)
	if err := a.stillThere(ctx); err != nil {
		return false, err
	}
	return true, a.moveCursor()
}

// storeHead makes the object of a segment.
func (a *archiver) storeHead(ctx context.Context, h *segmentHead, p pending) error {
	text := h.encode()
	a.info.Bytes += int64(len(text)) + h.size
	return a.storage.Create(ctx, h.name(), io.MultiReader(bytes.NewReader(text), bytes.NewReader(p.content)))
}

// stillSound returns an error if Prune has taken the writer of a segment for dead, and so may have deleted the tables
// of the segment. No segment may follow such a one, so the database begins a new stream.
func (a *archiver) stillSound(c *creation) error {
	running, err := c.ids(c.ctx, runningPrefix)
	if err != nil || slices.Contains(running, c.m.ID) {
		return err
	}
	return errors.CombineErrors(errParted, a.d.DropCursor(a.cursor))
}

// stillThere returns errParted if Prune has removed the stream.
func (a *archiver) stillThere(ctx context.Context) error {
	_, err := a.stream(ctx, a.id)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.CombineErrors(errParted, err)
	}
	return err
}

// moveCursor moves the cursor to the beginning of the newest segment that has changes. The database keeps the changes
// of that segment too, so the next program that archives the database can compare them.
func (a *archiver) moveCursor() error {
	err := a.d.SetCursor(a.cursor, a.from)
	if err == nil || !errors.Is(err, db.ErrChangesGone) {
		return err
	}
	now, listErr := a.d.Cursors()
	if at, ok := now[a.cursor]; ok && at > a.from { // another call of Archive has moved it further
		return nil
	}
	return errors.CombineErrors(err, listErr)
}

// storeWithTables stores a segment whose changes have tables. Like a backup, it is announced, so that Prune deletes no
// table that it needs.
func (a *archiver) storeWithTables(ctx context.Context, h *segmentHead, p pending) error {
	c := newCreation(ctx, a.Repository, a.d.Options())
	c.opts, c.m.Database = a.opts.CreateOptions, a.opts.Database
	err := c.chooseID()
	if err != nil {
		return err
	}
	if err = c.announce(""); err == nil {
		err = c.listObjects()
	}
	for _, path := range p.tables {
		if err != nil {
			break
		}
		if err = ctx.Err(); err == nil {
			var f file
			c.dir = filepath.Dir(path)
			if f, err = c.storeFile(filepath.Base(path)); err == nil {
				h.tables = append(h.tables, f)
				c.m.files = append(c.m.files, f)
			}
		}
	}
	if err == nil {
		err = c.checkObjects()
	}
	if err == nil {
		if err = a.storeHead(ctx, h, p); err == nil {
			err = a.stillSound(c)
		}
	}
	return errors.CombineErrors(err, c.giveUp())
}
