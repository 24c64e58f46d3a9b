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
	"github.com/sievedb/sievedb/internal/vfs/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// session is one run of the command: the database that its workloads share, the
// keys, and what has been found out so far.
type session struct {
	cfg            *config
	stdout, stderr io.Writer
	fs             *wrap.Counting
	keys           keySpace
	allKeysStored  bool // every key of a key file is in the database
	dir            string
	temporary      bool // dir is ours to remove
	store          *db.DB
	events         compactionEvents
	threadsMade    uint64

	report  *report   // of the last filterreads
	sweep   *sweep    // of the last filtersweep
	results []*result // of the other workloads
	stats   *stats
}

// newSession reads the key files and makes the folder, but opens nothing.
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

// readKeys sets the key space where the keys are real ones.
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
		s.allKeysStored = s.cfg.UseExistingDB // the user says so; filterreads will tell
		s.keys.deriveMissing()
	}
	return nil
}

// checkDir refuses to touch a folder with something in it that the user did not
// offer for use: most workloads begin by destroying the database.
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
		return fmt.Errorf("--db: %s is not empty; name a new folder, or give --use_existing_db to work on the database in it", s.dir)
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

// freshDB makes an empty database.
func (s *session) freshDB() error {
	if err := s.closeDB(); err != nil {
		return err
	}
	if err := db.Destroy(s.dir, &db.Options{FS: s.fs}); err != nil {
		return err
	}
	return s.openDB()
}

// reads is how many operations a reading thread does where there are n keys.
func (s *session) reads(n int) int {
	if s.cfg.Reads < 0 {
		return n
	}
	return s.cfg.Reads
}

// settle writes what is in memory to tables and waits until the store has no
// compaction to do.
func (s *session) settle(ctx context.Context) error {
	if err := s.store.Flush(); err != nil {
		return err
	}
	// The store starts a compaction in the moment in which it becomes due, so a
	// pause without one, in which no table came or went, means that none is due.
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

// workDone changes whenever the background has finished something.
func (s *session) workDone() [3]uint64 {
	m := s.store.Metrics()
	return [3]uint64{m.Flushes.Count, m.Compactions.Count, m.Compactions.TrivialMoves}
}
