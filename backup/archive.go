package backup

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// ArchiveOptions configure Archive and KeepArchiving. The zero value of each field is its default.
type ArchiveOptions struct {
	// CreateOptions are those of the backup that is made if there is none to continue. Its Database
	// names the database in any case.
	CreateOptions
	// Every is the longest time between two segments of KeepArchiving while the database changes. If the machine is
	// lost, the writes of the last period are lost too. Default: one minute.
	Every time.Duration
}

// ArchiveInfo is what Archive did.
type ArchiveInfo struct {
	// Backup is the backup that was made because there was none to continue; nil otherwise.
	Backup *Info
	// Stream is the ID of the history to which the segments belong.
	Stream string
	// Last is the sequence number up to which RestoreAt can restore.
	Last uint64
	// Segments, Changes and Bytes count what was stored, without tables of loads and ingests.
	Segments, Changes int
	Bytes             int64
}

// Archive stores the changes since the last segment or backup in segments, so that RestoreAt can restore the state
// after each of them. It first makes all writes durable. When it returns nil, every state from the first backup of the
// stream to this moment can be restored. d must be open for writing, with Options.Changes.
//
// If the changes do not continue a backup, Archive makes one first. That happens
//
//   - at the first call, and after a restore;
//   - if the history of the database was restarted;
//   - if the database is a copy that has been changed since;
//   - if Prune has removed all backups of the stream.
//
// The database keeps changes that no segment has yet, whatever Options.Changes says, until StopArchiving.
//
// Archive and Create may be called from any goroutine, and for several databases at once. Only one program archives a
// database at a time, because only one has it open for writing. After an error or a crash, the next call continues. nil
// options mean the defaults. If ctx is done, the error is that of ctx.
func (r *Repository) Archive(ctx context.Context, d *db.DB, o *ArchiveOptions) (ArchiveInfo, error) {
	a, err := r.newArchiver(ctx, d, o)
	if err != nil {
		return ArchiveInfo{}, err
	}
	err = a.catchUp(ctx, true)
	return a.info, errors.Wrap(base.NoSpace(err), "sievedb: backup: Archive")
}

// KeepArchiving does what Archive does, continuously. It returns when ctx is done, when d is closed, or with an error.
// For RestoreAt, it notes the time of changes to the second. Call it again after an error, such as one of the network.
// It does not archive the writes just before ctx was done: call Archive afterwards.
func (r *Repository) KeepArchiving(ctx context.Context, d *db.DB, o *ArchiveOptions) error {
	a, err := r.newArchiver(ctx, d, o)
	if err != nil {
		return err
	}
	for err == nil {
		if err = a.catchUp(ctx, true); err == nil {
			err = a.await(ctx)
		}
	}
	return errors.Wrap(base.NoSpace(err), "sievedb: backup: KeepArchiving")
}

func (r *Repository) newArchiver(ctx context.Context, d *db.DB, o *ArchiveOptions) (*archiver, error) {
	a := &archiver{Repository: r, d: d}
	if o != nil {
		a.opts = *o
	}
	if a.opts.Every == 0 {
		a.opts.Every = time.Minute
	}
	switch {
	case ctx == nil:
		return nil, errors.New("sievedb: backup: archiving needs a context")
	case a.opts.Every < 0:
		return nil, errors.Newf("sievedb: backup: ArchiveOptions.Every is %v; want more than 0", a.opts.Every)
	case d.Dir() == "":
		return nil, errors.Wrap(db.ErrClosed, "sievedb: backup: archiving")
	case d.Options().ReadOnly:
		return nil, errors.Wrap(db.ErrReadOnly, "sievedb: backup: archiving needs a database that is open for writing")
	}
	if _, _, err := d.ChangePositions(); err != nil {
		return nil, errors.Wrap(err, "sievedb: backup: archiving")
	}
	// A repository in the database's directory is refused.
	if err := newCreation(ctx, r, d.Options()).findPlace(d); err != nil {
		return nil, err
	}
	return a, r.begin(ctx)
}

// archiver appends segments to the stream of a database.
type archiver struct {
	*Repository
	d    *db.DB
	opts ArchiveOptions
	info ArchiveInfo

	// attached says that the fields below are known.
	attached bool
	cursor   string // its name
	id       string // of the stream
	begins   uint64 // the number after which it begins
	// The newest segment: its number, its checksum, and its last sequence number. from is the position of the cursor:
	// the number after which the newest segment with a change begins.
	number   uint64
	sum      string
	last     uint64
	from     uint64
	lastMark time.Time

	pending pending
}

// errParted says that the changes of the database do not continue the stream.
var errParted = errors.Sentinel("sievedb: backup: the changes of the database do not continue the stream")

// catchUp syncs the log, and archives all changes up to then. If no stream can be continued, it begins one if begin is
// set, and returns errParted otherwise.
func (a *archiver) catchUp(ctx context.Context, begin bool) error {
	release, err := takeTurn(ctx, a.d)
	if err != nil {
		return err
	}
	defer release()
	if err := a.d.SyncLog(); err != nil {
		return err
	}
	if a.attached {
		// Another call may have continued the stream, and the database may not have the changes before that any more.
		if err := a.continueStream(ctx); !errors.Is(err, errParted) {
			return err
		}
		a.detach()
	}
	const attempts = 3
	for i := 0; ; i++ {
		err := a.continueStream(ctx)
		if !errors.Is(err, errParted) || !begin || i == attempts {
			return err
		}
		a.detach()
		if err := a.beginStream(ctx); err != nil {
			return err
		}
	}
}

func (a *archiver) detach() { a.attached, a.pending = false, pending{} }

// continueStream stores all that is durable in segments.
func (a *archiver) continueStream(ctx context.Context) error {
	for {
		if !a.attached {
			if err := a.attach(ctx); err != nil {
				return err
			}
		}
		full, err := a.gather(ctx, false)
		if err != nil {
			return err
		}
		stored, err := a.store(ctx)
		if err != nil || stored && !full {
			return err
		}
	}
}

// await gathers changes as they come, for a while.
func (a *archiver) await(ctx context.Context) error {
	period, cancel := context.WithTimeout(ctx, a.opts.Every)
	defer cancel()
	_, err := a.gather(period, true)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	if errors.Is(err, errParted) { // catchUp looks again
		err = nil
	}
	return err
}

// attach finds the stream that the database continues. To continue after a segment, a database must have written it, or
// have the same changes. So attach compares the changes since the cursor. It refuses a second name for the database: a
// restore by name would find only a part of its backups.
func (a *archiver) attach(ctx context.Context) error {
	s, at, err := a.usable(ctx)
	if err != nil {
		return err
	}
	if s == nil {
		return errParted
	}
	numbers, err := a.numbers(ctx, s.id)
	if err != nil {
		return err
	}
	a.begins = s.after
	a.id, a.cursor, a.number, a.sum, a.last, a.from = s.id, at.name, 0, "", s.after, s.after
	a.lastMark, _ = timeOf(s.id)
	if len(numbers) == 0 && at.position != s.after {
		return errParted
	}
	if err := a.follow(ctx, numbers, at.position); err != nil {
		return err
	}
	if s.database != a.opts.Database {
		return errors.Newf("the database is archived here with the name %q, in stream %s, and Database is %q; give all backups and "+
			"archives of a database one name; to rename it, or if it is a copy, call StopArchiving first", s.database, s.id, a.opts.Database)
	}
	a.attached = true
	a.info.Stream, a.info.Last = a.id, a.last
	return nil
}

// follow compares the segments since a position with the changes of the database. It returns errParted if they differ.
// It also does if the segments neither reach back to the position nor have a change, because equal numbers alone do not
// prove that the history is the same.
func (a *archiver) follow(ctx context.Context, numbers []uint64, position uint64) error {
	begin, proven := len(numbers), len(numbers) == 0
	for begin > 0 && !proven {
		h, err := a.segmentHead(ctx, a.id, numbers[begin-1])
		if errors.Is(err, fs.ErrNotExist) { // pruned meanwhile, with those before it
			break
		}
		if err != nil {
			return err
		}
		begin--
		if proven = h.after <= position; proven && h.last < position {
			return errParted
		}
	}
	for _, n := range numbers[begin:] {
		s, err := a.segment(ctx, a.id, n)
		if err != nil {
			return err
		}
		if err := a.compare(ctx, s); err != nil {
			return err
		}
		a.note(s.segmentHead)
		proven = proven || s.changes > 0
	}
	if !proven {
		return errParted
	}
	return nil
}

// note makes a segment the newest one.
func (a *archiver) note(h *segmentHead) {
	a.number, a.sum, a.last, a.lastMark = h.number, h.sum, h.last, h.marks[len(h.marks)-1].at
	if h.changes > 0 {
		a.from = h.after
	}
	a.info.Last = h.last
}

// compare returns errParted unless the database has exactly the changes of a segment.
func (a *archiver) compare(ctx context.Context, s *segment) error {
	if err := s.validate(); err != nil {
		return base.InFile(err, s.name(), -1)
	}
	r := s.reader()
	want, more, err := r.next()
	if err != nil {
		return err
	}
	for c, err := range a.d.Changes(ctx, s.after, nil) {
		if err != nil {
			return parted(err)
		}
		if !more {
			return nil
		}
		got, err := take(c, 0)
		if err != nil {
			return err
		}
		if !got.same(&want) {
			return errParted
		}
		if same, err := a.sameTables(ctx, c.Tables(), s, want.tables); !same || err != nil {
			return errors.CombineErrors(err, errParted)
		}
		if want, more, err = r.next(); err != nil {
			return err
		}
	}
	if more {
		return errParted
	}
	return nil
}

// sameTables reports whether files have the content of tables of a segment.
func (a *archiver) sameTables(ctx context.Context, paths []string, s *segment, tables []int) (bool, error) {
	if len(paths) == 0 {
		return true, nil
	}
	c := newCreation(ctx, a.Repository, a.d.Options())
	for i, path := range paths {
		f, err := c.fs.Open(path)
		if err != nil {
			return false, err
		}
		size, err := f.Size()
		sum := ""
		if err == nil {
			sum, err = sumOf(ctx, io.NewSectionReader(f, 0, size))
		}
		err = errors.CombineErrors(err, f.Close())
		if want := s.tables[tables[i]]; err != nil || size != want.size || sum != want.sum {
			return false, err
		}
	}
	return true, nil
}

// parted replaces errors of a feed which mean that its history is not that of the stream.
func parted(err error) error {
	if errors.Is(err, db.ErrChangesGone) || errors.Is(err, db.ErrChangesAhead) {
		return errors.CombineErrors(errParted, err)
	}
	return err
}

// beginStream makes a backup with which a new stream begins. The object of the stream is made last: Prune
// removes streams that have no backup.
func (a *archiver) beginStream(ctx context.Context) (err error) {
	identities, err := a.identities(ctx, true)
	if err != nil {
		return err
	}
	s := stream{database: a.opts.Database}
	if s.id, err = a.newStreamID(ctx); err != nil {
		return err
	}
	name := cursorName(identities[0], s.id)
	if err := a.firstCursor(name); err != nil {
		return err
	}
	began := false
	defer func() {
		if !began {
			err = errors.CombineErrors(err, a.d.DropCursor(name))
		}
	}()
	old, err := a.cursors(ctx, a.d)
	if err != nil {
		return err
	}
	info, err := a.createIn(ctx, a.d, &a.opts.CreateOptions, s.id)
	if err != nil {
		return err
	}
	a.info.Backup, s.after = &info, info.Sequence
	if err = a.d.SetCursor(name, s.after); err == nil {
		err = a.create(ctx, streamPrefix+s.id, s.encode())
	}
	if err == nil {
		_, err = a.manifest(ctx, info.ID) // else a Prune that found no stream has removed it
	}
	if err != nil {
		return errors.CombineErrors(err, newCreation(ctx, a.Repository, a.d.Options()).remove(streamPrefix+s.id))
	}
	began = true
	return a.dropOld(ctx, old, name)
}

// firstCursor sets a cursor to the last durable change. A flush may remove that in between.
func (a *archiver) firstCursor(name string) (err error) {
	const attempts = 10
	for range attempts {
		var last uint64
		if _, last, err = a.d.ChangePositions(); err == nil {
			err = a.d.SetCursor(name, last)
		}
		if !errors.Is(err, db.ErrChangesGone) {
			break
		}
	}
	return err
}

// newStreamID returns an ID that is later than those of all streams, as chooseID does for backups.
func (a *archiver) newStreamID(ctx context.Context) (string, error) {
	ids, err := a.ids(ctx, streamPrefix)
	return newID(a.later(a.now(), ids)), err
}

// dropOld drops the cursors of the database for earlier streams.
func (a *archiver) dropOld(ctx context.Context, old []cursor, name string) error {
	for _, c := range old {
		if c.name == name {
			continue
		}
		s, err := a.stream(ctx, c.stream)
		switch {
		case errors.Is(err, fs.ErrNotExist): // usable drops those that no stream has
			continue
		case err != nil:
			return err
		case s.database != a.opts.Database: // that of a database of which this one is a copy
			continue
		}
		if err := a.d.DropCursor(c.name); err != nil {
			return err
		}
	}
	return nil
}

// reaches reports whether segments continue from a backup with that sequence number. They may not: while the backup was
// made, the stream may have begun, or Prune may have removed segments.
func (a *archiver) reaches(ctx context.Context, seq uint64) (bool, error) {
	numbers, err := a.numbers(ctx, a.id)
	if err != nil || len(numbers) == 0 || seq > a.last {
		return seq == a.begins && len(numbers) == 0, err
	}
	h, err := a.segmentHead(ctx, a.id, numbers[0])
	if errors.Is(err, fs.ErrNotExist) { // pruned meanwhile
		return false, nil
	}
	return err == nil && h.after <= seq, err
}

// joinsStreams reports whether backups of d can be parts of a stream.
func joinsStreams(d *db.DB) bool {
	o := d.Options()
	return !o.ReadOnly && o.Changes != (db.ChangeRetention{})
}

func (c *creation) archiver(d *db.DB) *archiver {
	return &archiver{Repository: c.Repository, d: d, opts: ArchiveOptions{CreateOptions: c.opts}}
}

// joinStream makes a backup a part of the stream that the database continues, so that RestoreAt can begin with it. It
// first archives all changes that the backup contains. If that succeeds, the backup is of the history that the stream
// has.
func (c *creation) joinStream(d *db.DB) error {
	if !joinsStreams(d) {
		return nil
	}
	id := c.m.Stream
	if id == "" {
		a := c.archiver(d)
		err := a.catchUp(c.ctx, false)
		if errors.Is(err, errParted) {
			return nil
		}
		if err != nil {
			return errors.Wrap(err, "archiving the changes before the backup")
		}
		if reaches, err := a.reaches(c.ctx, c.m.Sequence); err != nil || !reaches {
			return err
		}
		id = a.id
	} else if err := d.SyncLog(); err != nil {
		return err
	}
	c.m.Stream, c.m.Noted = id, c.now().UTC()
	return nil
}
