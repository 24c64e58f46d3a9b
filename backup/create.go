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
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/work/checkpoint"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// MaxDuration is how long a backup may take. If a backup takes longer, it fails, but the next one uses the objects that
// it has stored. AbandonedAfter is the age from which Prune treats a running backup as abandoned, for example after a
// crash of another machine. The difference allows for machines whose clocks differ, and for a slow last write.
const (
	MaxDuration    = 48 * time.Hour
	AbandonedAfter = 96 * time.Hour
)

// CreateOptions configure a backup.
type CreateOptions struct {
	// Database names the database if the repository has backups of several. Prune applies its policy
	// to each name separately. It has at most 4 KiB. A database that Archive stores under a name has that name in
	// all backups; another one is refused.
	Database string
	// CheckpointParent is the directory for the checkpoint that exists while the backup is made. The checkpoint's name
	// begins with that of the database's directory and ".backup-". The directory should be on the file system of the
	// database: otherwise the checkpoint copies every table. It is made if it does not exist. "" means the subdirectory
	// "backup" of the database's directory, which exists only during the backup. If the database's directory cannot be
	// written, another one is necessary.
	CheckpointParent string
	// Flush flushes the memtables first, so that the backup has no large log.
	Flush bool
	// ReadAll reads every table. Otherwise the hash in a table decides whether the repository has that table already.
	// The hash is not cryptographic: someone who chooses values may be able to make two tables with the same hash.
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
	lock           io.Closer // held as long as the backup is announced, see dropDead
	m              manifest
	began          time.Time
	// comparer is that of the database; nil means the default.
	comparer *db.Comparer
	// objects are the stored objects that the backup may use, by checksum. They have only a name and a size.
	objects map[string]Object
	known   recognizer
}

// Create stores a backup of d and returns it. The backup has the state of the store at one moment during the call: it
// has all writes that were acknowledged before the call. The store can be used during the backup, and may be read-only.
// nil options mean the defaults.
//
// Create first makes a checkpoint in the subdirectory "backup" of the database's directory, which every engine ignores.
// It needs almost no space. If a crash leaves it, the next backup of that database, the next opening for writing, or
// db.Destroy removes it.
//
// Each backup in the repository is complete, also after errors and crashes. If the returned Info has an ID despite an
// error, the backup has been stored, and only the note that it is running could not be removed; Prune removes that
// later. If ctx is done, the error is that of ctx. If the disk is full, it is db.ErrNoSpace.
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

// chooseID chooses the ID. Backups are sorted by ID, so it is later than all existing ones, even if the clock was set
// back or is late.
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

// run makes the backup. It announces it first. If the backup fails, the announcement is removed last, when no object
// can be needed for it any more.
func (c *creation) run(d *db.DB) (err error) {
	if c.m.Stream == "" && joinsStreams(d) { // another name is refused before anything is stored
		if err := c.archiver(d).attach(c.ctx); err != nil && !errors.Is(err, errParted) {
			return err
		}
	}
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

// remove deletes an object that this call has made, even if the context is done.
func (c *creation) remove(name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), removeWithin)
	defer cancel()
	return c.storage.Delete(ctx, name)
}

// listObjects finds the objects that the backup may use: those that are not condemned. It reads the lists of condemned
// objects before it lists the objects, because Prune deletes condemned objects first and their list afterwards.
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
		case errors.Is(err, base.ErrLocked): // another backup found the file before it was locked, and is about to remove it
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
	if base.IsWriteRefused(err) {
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

// use makes f the stored object with the checksum of f, if there is one that may be used.
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

// checkIdentity drops the identity of a damaged table. Otherwise an undamaged copy of the table, in a restored database
// or on another machine, would be recognized as stored already, and never be stored.
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

// commit writes the manifest, after it has checked what the rules in the package comment demand.
func (c *creation) commit() error {
	if err := c.checkObjects(); err != nil {
		return err
	}
	name := backupPrefix + c.m.ID
	err := c.create(c.ctx, name, c.m.encode())
	if err == nil {
		err = c.stillAnnounced()
	}
	if err != nil { // Create may have had its effect although it failed
		return errors.CombineErrors(err, c.remove(name))
	}
	return nil
}

// stillAnnounced returns an error if Prune has treated the backup as abandoned.
func (c *creation) stillAnnounced() error {
	running, err := c.ids(c.ctx, runningPrefix)
	if err == nil && !slices.Contains(running, c.m.ID) {
		err = errors.New("the backup was taken for abandoned, and removed; compare the clocks, and make the backup again")
	}
	return err
}
