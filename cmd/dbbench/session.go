package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// session is one run of the command: the database that its workloads share, the keys, and the results so far.
type session struct {
	cfg            *config
	stdout, stderr io.Writer
	fs             *wrap.Counting
	keys           keySpace
	allKeysStored  bool // the database has every key of the key file
	dir            string
	temporary      bool // close removes dir
	store          *db.DB
	events         compactionEvents
	threadsMade    uint64

	report  *report   // of the last filterreads
	results []*result // of the other workloads
	stats   *stats
}

// newSession reads the key files and creates the folder. It does not open the database.
func newSession(cfg *config, stdout, stderr io.Writer) (*session, error) {
	s := &session{cfg: cfg, stdout: stdout, stderr: stderr, fs: wrap.NewCounting(vfs.OS)}
	s.keys = keySpace{num: cfg.Num, keySize: cfg.KeySize}
	if err := s.readKeys(); err != nil {
		return nil, err
	}
	if cfg.DB != "" {
		s.dir = cfg.DB
		return s, s.checkDir()
	}
	var err error
	s.dir, err = os.MkdirTemp("", "dbbench-")
	s.temporary = true
	return s, err
}

// readKeys sets the key space if the keys are from a file or are the shipped words.
func (s *session) readKeys() error {
	var err error
	switch {
	case s.cfg.Keys != "":
		s.keys.list, err = readKeyFile(s.cfg.Keys)
	case len(s.cfg.Benchmarks) == 0 && !s.cfg.UseExistingDB:
		s.keys.list, s.keys.missing, err = shippedWords()
	}
	if err == nil && s.cfg.Absent != "" {
		s.keys.missing, err = readKeyFile(s.cfg.Absent)
	}
	if err != nil {
		return err
	}
	if s.keys.list != nil {
		s.keys.list = s.keys.list.first(s.cfg.Num)
		s.keys.num = s.keys.list.len()
		s.allKeysStored = s.cfg.UseExistingDB // as the user claims; filterreads checks it
		s.keys.deriveMissing()
	}
	return nil
}

// checkDir returns an error if the folder is not empty, unless --use_existing_db is given: most
// workloads start by destroying the database.
func (s *session) checkDir() error {
	entries, err := os.ReadDir(s.dir)
	switch {
	case s.cfg.UseExistingDB && err != nil:
		return fmt.Errorf("--use_existing_db: %w", err)
	case s.cfg.UseExistingDB, errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--db: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--db: %s is not empty; name a new folder, or use --use_existing_db to work on the database in it",
			s.dir)
	}
	return nil
}

// close closes the database and removes it if it was temporary.
func (s *session) close() error {
	err := s.closeDB()
	if s.temporary {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *session) closeDB() error {
	if s.store == nil {
		return nil
	}
	err := s.store.Close()
	s.store = nil
	return err
}

// openDB opens the database with the settings of the command line.
func (s *session) openDB() (err error) {
	if s.store != nil {
		return nil
	}
	o := s.cfg.options()
	o.FS = s.fs
	o.ErrorIfMissing = s.cfg.UseExistingDB
	o.EventListener = s.events.listener()
	s.store, err = db.Open(s.dir, o)
	return err
}

// freshDB opens an empty database.
func (s *session) freshDB() error {
	if err := s.closeDB(); err != nil {
		return err
	}
	if err := db.Destroy(s.dir, &db.Options{FS: s.fs}); err != nil {
		return err
	}
	return s.openDB()
}

// reads returns the operations of a reading thread, given n keys.
func (s *session) reads(n int) int {
	if s.cfg.Reads < 0 {
		return n
	}
	return s.cfg.Reads
}

// settle flushes the memtables and waits until no compaction is due.
func (s *session) settle(ctx context.Context) error {
	if err := s.store.Flush(); err != nil {
		return err
	}
	// The store starts a compaction as soon as it is due. So a pause without one, in which no
	// table was added or removed, means that none is due.
	const pause, quietPauses = 20 * time.Millisecond, 5
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for quiet, last := 0, s.workDone(); quiet < quietPauses; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		now := s.workDone()
		if quiet++; now != last || s.events.running() {
			quiet = 0
		}
		last = now
		if err := s.store.Metrics().BackgroundError; err != nil {
			return err
		}
	}
	return nil
}

// workDone returns counts that change whenever background work finishes.
func (s *session) workDone() [3]uint64 {
	m := s.store.Metrics()
	return [3]uint64{m.Flushes.Count, m.Compactions.Count, m.Compactions.TrivialMoves}
}
