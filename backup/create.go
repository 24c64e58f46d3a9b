package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/work/checkpoint"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// MaxDuration is how long a backup may take. Objects that were stored when it ends with an error are
// found again by the next backup. AbandonedAfter is the age at which Prune takes a running backup for
// abandoned, as after a crash of another machine. The difference allows for clocks that differ between machines, and for
// a slow last write.
const (
	MaxDuration    = 48 * time.Hour
	AbandonedAfter = 96 * time.Hour
)

// CreateOptions configure a backup.
type CreateOptions struct {
	// Database names the database if the repository has backups of several. Prune applies its policy
	// to each name separately. It has at most 4 KiB.
	Database string
	// CheckpointParent is the directory in which a checkpoint is made for the time of the backup, with a
	// name that begins with that of the database's directory and ".backup-". It must be on the file system
	// of the database, or the checkpoint copies every table. It is made if it does not exist. "" means the subdirectory "backup" of the
	// database's directory, which exists only meanwhile. A database in a directory that cannot be written needs
	// another one.
	CheckpointParent string
	// Flush flushes the memtables first, so that the backup has no large log.
	Flush bool
	// ReadAll reads every table, and does not rely on the hash in a table that says that it is stored
	// already. The hash is not cryptographic: someone who chooses values may be able to make two
	// tables with the same one.
	ReadAll bool
}

// creation is one call of Create.
type creation struct {
	*Repository
	ctx  context.Context
	opts CreateOptions
	fs   vfs.FS
	// parent is the directory in which the checkpoint is made, with a name that begins with prefix. own says that it is
	// in the database's directory.
	parent, prefix string
	own            bool
	dir            string    // the checkpoint
	lock           io.Closer // held until the backup is not announced any more, see dropDead
	m              manifest
	began          time.Time
	// comparer is that of the database; nil means the default.
	comparer *db.Comparer
	// objects are those that may be used, by checksum: only name and size matter.
	objects map[string]Object
	known   recognizer
}

// Create stores a backup of d and returns it. The backup has the state of the store at one moment after
// the call: all writes that were acknowledged before the call, and none that began after Create
// noted the state. The store can be used meanwhile, and may be read-only. nil options mean the defaults.
//
// The database's files are noted with a checkpoint in the subdirectory "backup" of its directory, which every
// engine ignores. It needs almost no space. What a crash leaves is removed by the next backup of that database, the
// next opening for writing, and db.Destroy.
//
// A backup that is in the repository is complete, also after an error or a crash. If the returned Info
// has an ID despite an error, the backup is there, and only the note that it is running could not be
// removed; Prune removes that later. If ctx is done, the error is that of ctx. A full disk is
// db.ErrNoSpace.
func (r *Repository) Create(ctx context.Context, d *db.DB, o *CreateOptions) (Info, error) {
	return r.createIn(ctx, d, o, "")
}

// createIn makes a backup, with which a stream begins if its ID is given.
func (r *Repository) createIn(ctx context.Context, d *db.DB, o *CreateOptions, stream string) (Info, error) {
	if ctx == nil {
		return Info{}, errors.New("sievedb: backup: Create needs a context")
	}
	if d.Dir() == "" {
		return Info{}, errors.Wrap(db.ErrClosed, "sievedb: backup: Create")
	}
	c := newCreation(ctx, r, d.Options())
	if o != nil {
		c.opts = *o
	}
	c.m.Database, c.m.Stream = c.opts.Database, stream
	if n := len(c.m.Database); n > maxDatabaseName {
		return Info{}, errors.Newf("sievedb: backup: the name of the database has %d bytes; at most %d are supported",
			n, maxDatabaseName)
	}
	err := c.findPlace(d)
	if err == nil {
		err = r.begin(ctx)
	}
	if err != nil {
		return Info{}, err
	}
	defer c.unlockPlace()
	if err := c.run(d); err != nil {
		return Info{}, errors.Wrap(base.NoSpace(err), "sievedb: backup")
	}
	return c.m.Info, errors.Wrapf(c.giveUp(), "sievedb: backup: %s is complete, but it is still listed as running", c.m.ID)
}

func newCreation(ctx context.Context, r *Repository, o db.Options) *creation {
	c := &creation{Repository: r, ctx: ctx, fs: o.FS, began: r.now(), comparer: o.Comparer}
	if c.fs == nil {
		c.fs = vfs.NewOS(cmp.Or(o.FileMode, vfs.DefaultFileMode))
	}
	c.m.Engine, c.m.Comparer = engineVersion(), db.BytewiseComparer.Name
	if o.Comparer != nil {
		c.m.Comparer = o.Comparer.Name
	}
	return c
}

// findPlace chooses the directory of the checkpoint, and refuses a repository in the database's directories.
func (c *creation) findPlace(d *db.DB) (err error) {
	for _, dir := range []string{d.Dir(), d.Options().LogDir} {
		if dir != "" && err == nil {
			err = errors.Wrap(apart(c.storage, c.fs, dir), "sievedb: backup")
		}
	}
	switch {
	case err != nil:
	case c.opts.CheckpointParent == "":
		c.parent, c.own = filepath.Join(d.Dir(), base.BackupDir), true
	default: // absolute, since the working directory may change
		c.prefix = filepath.Base(d.Dir()) + ".backup-"
		if c.parent, err = c.fs.Abs(c.opts.CheckpointParent); err == nil {
			err = c.checkParent(d)
		}
	}
	return err
}

// checkParent refuses a CheckpointParent before it is made.
func (c *creation) checkParent(d *db.DB) error {
	const option = "sievedb: backup: CreateOptions.CheckpointParent is %s, which is "
	for _, dir := range []string{d.Dir(), d.Options().LogDir} {
		if dir == "" {
			continue
		}
		in, err := vfs.Within(c.fs, c.parent, c.fs, dir)
		if err != nil {
			return errors.Wrapf(err, "sievedb: backup: CreateOptions.CheckpointParent")
		}
		if in {
			return errors.Newf(option+"in %s and so belongs to the database; choose a directory outside, or none", c.parent, dir)
		}
	}
	if info, err := c.fs.Stat(c.parent); err == nil && !info.IsDir() {
		return errors.Newf(option+"a file; choose a directory", c.parent)
	}
	return nil
}

// chooseID chooses the ID. Backups are sorted by it, so it is later than those of all backups that are
// there, also if the clock was set back or is late.
func (c *creation) chooseID() error {
	ids, err := c.ids(c.ctx, backupPrefix)
	if err != nil {
		return err
	}
	c.m.ID = newID(c.later(c.began, ids))
	c.m.Time, _ = timeOf(c.m.ID)
	return nil
}

// later returns a time for an ID that is later than all others, unless they are wrong.
func (r *Repository) later(at time.Time, ids []string) time.Time {
	for _, id := range ids {
		if t, _ := timeOf(id); !t.Before(at) && !r.isFuture(t) {
			at = t.Add(1)
		}
	}
	return at
}

// engineVersion returns the version of SieveDB in this program.
func engineVersion() string {
	const module = "github.com/sievedb/sievedb"
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				version = m.Version
			}
		}
	}
	return version
}

// run makes the backup, announced before everything else. If it fails, the announcement is removed
// last, when nothing can begin to need an object any more.
func (c *creation) run(d *db.DB) (err error) {
	if err := c.chooseID(); err != nil {
		return err
	}
	if err := c.lockPlace(); err != nil {
		return err
	}
	if err = c.announce(c.dir + checkpoint.LockSuffix); err == nil {
		err = c.listObjects()
	}
	if err == nil {
		err = c.store(d)
	}
	if err == nil {
		err = c.joinStream(d)
	}
	if err == nil {
		err = c.commit()
	}
	if err != nil {
		return errors.CombineErrors(err, c.giveUp())
	}
	return nil
}

// giveUp removes the announcement, also if the context is done.
func (c *creation) giveUp() error { return c.remove(runningPrefix + c.m.ID) }

// removeWithin is how long a call waits for a storage that may not be reachable.
const removeWithin = time.Minute

// remove deletes an object of this call, also if the context is done.
func (c *creation) remove(name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), removeWithin)
	defer cancel()
	return c.storage.Delete(ctx, name)
}

// listObjects finds the objects that may be used. The condemned ones are read before the objects
// are listed: a list of condemned objects is removed after they were deleted.
func (c *creation) listObjects() error {
	condemned, err := c.readCondemned(c.ctx)
	if err != nil {
		return err
	}
	lost := map[string]bool{}
	for _, list := range condemned {
		for _, name := range list.names {
			lost[name] = true
		}
	}
	c.objects = map[string]Object{}
	for o, err := range c.storage.List(c.ctx, objectPrefix) {
		if err != nil {
			return errors.Wrap(err, "listing the objects")
		}
		if sum, _, ok := parseObject(o.Name); ok && !lost[o.Name] {
			c.objects[sum] = o
		}
	}
	c.known.Repository, c.known.database = c.Repository, c.m.Database
	return nil
}

// store makes a checkpoint, stores its files, and removes it.
func (c *creation) store(d *db.DB) error {
	info, err := d.Checkpoint(c.ctx, c.dir, &db.CheckpointOptions{Flush: c.opts.Flush})
	c.m.Sequence = info.Seq
	if err == nil {
		err = c.storeFiles()
	}
	return errors.CombineErrors(err, checkpoint.RemoveFiles(c.fs, c.dir))
}

// lockPlace removes what interrupted backups left, chooses the name of the checkpoint, and locks it.
func (c *creation) lockPlace() error {
	isName := func(name string) bool {
		id, ok := strings.CutPrefix(name, c.prefix)
		return ok && validID(id)
	}
	_, err := c.dropDead(c.ctx, false) // before the locks are removed
	if err == nil {
		err = checkpoint.RemoveLeft(c.fs, c.parent, !c.own, isName)
	}
	if err != nil {
		return errors.Wrap(err, "removing what an interrupted backup left")
	}
	id := c.m.ID
	for range lockAttempts {
		if err = c.makeParent(); err != nil {
			return err
		}
		c.dir = filepath.Join(c.parent, c.prefix+id)
		c.lock, err = c.fs.Lock(c.dir+checkpoint.LockSuffix, false)
		switch {
		case errors.Is(err, base.ErrLocked): // another backup has found the file, not locked yet, and is about to remove it
			id = newID(c.began)
		case c.own && errors.Is(err, fs.ErrNotExist): // another backup has removed the empty parent
		case err != nil:
			return err
		default:
			return c.fs.SyncDir(c.parent)
		}
	}
	return err
}

// unlockPlace is called last. If it fails, the next backup removes the file.
func (c *creation) unlockPlace() {
	if c.lock == nil {
		return
	}
	if there, err := vfs.PlainDir(c.fs, c.dir); there || err != nil { // RemoveFiles has failed
		_ = c.lock.Close()
		return
	}
	_ = vfs.RemoveLock(c.fs, c.dir+checkpoint.LockSuffix, c.lock)
	if c.own {
		_ = c.fs.Remove(c.parent) // fails if another backup uses it
	}
}

// makeParent makes the directory of the checkpoint.
func (c *creation) makeParent() error {
	if !c.own {
		return vfs.MkdirAllSynced(c.fs, c.parent)
	}
	err := vfs.MkdirPlain(c.fs, c.parent)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		err = errors.Wrap(err, "the checkpoint of a backup is made in the database's directory; CheckpointParent, or "+
			"--checkpoint-parent of sievedb backup, names another one")
	}
	if err == nil {
		err = c.fs.SyncDir(filepath.Dir(c.parent))
	}
	return err
}

// lockAttempts is how many times a backup tries to lock a name for its checkpoint.
const lockAttempts = 20

func (c *creation) storeFiles() error {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isBackedUp(name) {
			continue
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		f, err := c.storeFile(name)
		if err != nil {
			return errors.Wrapf(err, "storing %s", name)
		}
		c.m.files = append(c.m.files, f)
		c.m.Files++
		c.m.Bytes += f.size
	}
	return nil
}

// storeFile makes sure that a file is stored.
func (c *creation) storeFile(name string) (f file, err error) {
	src, err := c.fs.Open(filepath.Join(c.dir, name))
	if err != nil {
		return f, err
	}
	defer src.Close()
	f.name = name
	if f.size, err = src.Size(); err != nil {
		return f, err
	}
	if isTable(name) {
		id, ok, err := sstable.Identify(src)
		if err != nil {
			return f, base.InFile(err, name, -1)
		}
		if ok {
			f.identity = hex.EncodeToString(id[:])
		}
		if found, err := c.recognize(&f); found || err != nil {
			return f, err
		}
	}
	return f, c.storeContent(src, &f)
}

// recognize finds out from earlier backups whether the table is stored already.
func (c *creation) recognize(f *file) (found bool, err error) {
	if f.identity == "" || c.opts.ReadAll {
		return false, nil
	}
	sum, err := c.known.sumOf(c.ctx, f.identity)
	if sum == "" || err != nil {
		return false, err
	}
	f.sum = sum
	return c.use(f), nil
}

// use makes f that object with its checksum which may be used, if there is one.
func (c *creation) use(f *file) bool {
	o, ok := c.objects[f.sum]
	if !ok || o.Size != f.size {
		return false
	}
	_, f.by, _ = parseObject(o.Name)
	return true
}

// inMemory is the largest file, in bytes, that is read once and stored from memory. Others are read
// twice, because an object's name is its checksum.
const inMemory = 16 << 20

// storeContent reads the file and stores it unless there is an object with its checksum.
func (c *creation) storeContent(src vfs.File, f *file) error {
	content, table := func() io.Reader { return io.NewSectionReader(src, 0, f.size) }, src
	if f.size <= inMemory {
		all := make([]byte, f.size)
		if _, err := vfs.ReadFull(src, all, 0); err != nil {
			return err
		}
		content, table = func() io.Reader { return bytes.NewReader(all) }, inMemoryFile{src, bytes.NewReader(all)}
	}
	var err error
	if f.sum, err = sumOf(c.ctx, content()); err != nil {
		return err
	}
	if err := c.checkIdentity(table, f); err != nil {
		return err
	}
	if c.use(f) {
		return nil
	}
	f.by = c.m.ID
	o := Object{f.object(), f.size}
	err = c.storage.Create(c.ctx, o.Name, newCheckedReader(content(), f))
	if err == nil {
		c.objects[f.sum] = o // another file may have the same content
		c.m.BytesStored += f.size
	}
	return err
}

// checkIdentity drops the identity of a table whose content is damaged. Otherwise the same table, undamaged
// in a restored database or on another machine, would be recognized by it, and never be stored.
func (c *creation) checkIdentity(table vfs.File, f *file) error {
	if f.identity == "" {
		return nil
	}
	err := sstable.VerifyContent(table, c.comparer)
	if errors.Is(err, base.ErrCorruption) {
		f.identity, err = "", nil
	}
	return err
}

// inMemoryFile is a file that was read completely.
type inMemoryFile struct {
	vfs.File
	content *bytes.Reader
}

func (f inMemoryFile) ReadAt(p []byte, off int64) (int, error) { return f.content.ReadAt(p, off) }

func (f inMemoryFile) Size() (int64, error) { return f.content.Size(), nil }

// sumOf returns the checksum of what r has.
func sumOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.CopyBuffer(h, struct{ io.Reader }{withContext{ctx, r}}, make([]byte, copyChunk))
	return hex.EncodeToString(h.Sum(nil)), err
}

// checkedReader reads the content of a file of a backup. At its end it returns an error unless size and
// checksum are those of the file.
type checkedReader struct {
	r    io.Reader
	f    *file
	hash hash.Hash
	n    int64
}

func newCheckedReader(r io.Reader, f *file) *checkedReader {
	return &checkedReader{r: r, f: f, hash: sha256.New()}
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.hash.Write(p[:n])
	c.n += int64(n)
	if err == io.EOF {
		if sum := hex.EncodeToString(c.hash.Sum(nil)); sum != c.f.sum || c.n != c.f.size {
			err = base.Corruptf("content", -1, "%d bytes with SHA-256 %s; want %d bytes with %s", c.n, sum, c.f.size, c.f.sum)
		}
	}
	return n, err
}

// checkObjects checks that all objects are there, and that the backup has not taken too long.
func (c *creation) checkObjects() error {
	missing := map[string]bool{}
	for _, f := range c.m.files {
		missing[f.object()] = true
	}
	for o, err := range c.storage.List(c.ctx, objectPrefix) {
		if err != nil {
			return errors.Wrap(err, "listing the objects")
		}
		delete(missing, o.Name)
	}
	for name := range missing {
		return errors.Newf("object %s was deleted during the backup; make the backup again", name)
	}
	if took := c.now().Sub(c.began); took > MaxDuration {
		return errors.Newf("the backup took %v; at most %v are supported. What it stored is kept; make the backup again",
			took, MaxDuration)
	}
	return nil
}

// commit writes the manifest, if all that the rules of the package comment demand is true.
func (c *creation) commit() error {
	if err := c.checkObjects(); err != nil {
		return err
	}
	name := backupPrefix + c.m.ID
	err := c.create(c.ctx, name, c.m.encode())
	if err == nil {
		err = c.stillAnnounced()
	}
	if err != nil { // also if Create failed, since it may have had its effect
		return errors.CombineErrors(err, c.remove(name))
	}
	return nil
}

// stillAnnounced returns an error if Prune took the backup for abandoned.
func (c *creation) stillAnnounced() error {
	running, err := c.ids(c.ctx, runningPrefix)
	if err == nil && !slices.Contains(running, c.m.ID) {
		err = errors.New("the backup was taken for abandoned, and removed; compare the clocks, and make the backup again")
	}
	return err
}
