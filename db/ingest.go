package db

import (
	"context"
	"time"

	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/report"
)

// IngestOptions configure an ingest.
type IngestOptions struct {
	// Copy copies the tables instead of linking them. Use it if another program may write to
	// the files later: a link shares their bytes.
	Copy bool
}

// Ingest adds tables that were made elsewhere: by sstable.Writer, by LevelDB or goleveldb, or by SieveDB
// on another machine. Their entries, deletions included, become visible all at one moment, above all
// earlier writes. If several tables have a key, the last one in paths has precedence, and within a
// table the entry with the greatest sequence number.
//
// Nothing counts before every table has been read completely: the checksum of each block, the order of
// the keys by Options.Comparer, the index and each filter of a known policy against each key. The keys
// and values have the limits of Put, and values under Options.Expiry.Prefixes need their envelopes,
// which tables of a store with that option have. Errors name the file, and one that is damaged is
// ErrCorruption. LevelDB's format does not record the comparer, so only a wrong order is found. Tables in
// this format by Pebble or RocksDB record it, and it is compared; those with deletions of ranges are refused.
//
// A table that overlaps nothing in the store is linked: its time depends on reading it once. So is one whose sequence
// numbers are all above the store's. Tables that overlap others of the call, or the store, or that an open snapshot or
// transaction would see, are rewritten. Tables of another file system are copied. The report says what was done.
//
// Ingest is atomic and durable when it returns, and it makes every write acknowledged before durable, as Loader.Commit
// does. After an error or a crash nothing of it is there; as with a failed write, all of it may be there if the
// MANIFEST failed. The given files are not changed or removed. They must not change afterwards, unless they were
// copied. Symbolic links and files of the database's own directory are refused.
//
// It may be called from any goroutine, several times at once; a transaction that read a key of the
// tables conflicts. nil options mean the defaults. If ctx is done, it returns the error of ctx.
func (d *DB) Ingest(ctx context.Context, paths []string, o *IngestOptions) (report.Ingest, error) {
	err := d.guardUnder(ctx, "Ingest", toWrite|toWait)
	if err != nil {
		return report.Ingest{}, err
	}
	err = d.commit.Lead(ctx, func(*commit.Leader) error {
		d.background.Add(1) // Close waits for the leader first
		return nil
	})
	if err != nil {
		return report.Ingest{}, err
	}
	defer d.background.Done()
	start := time.Now()
	info, err := d.bulk.Ingest(ctx, paths, o != nil && o.Copy)
	if errors.Is(err, ErrClosed) {
		return report.Ingest{}, d.orReadOnly(ErrClosed)
	}
	if len(paths) > 0 {
		event := info
		event.Duration, event.Err = time.Since(start), err
		notify(&d.listenerCalls, d.opts.EventListener.IngestEnd, event)
	}
	if err == nil {
		d.counters.noteIngest(&info)
		d.opts.Logger.Info("ingested", "entries", info.Entries, "linked", info.Linked, "copied", info.Copied,
			"rewritten", info.Rewritten, "tables", info.Tables, "took", info.Duration)
	}
	return info, err
}

// noteIngest counts an ingest, unless it had no entries.
func (c *dbCounters) noteIngest(info *report.Ingest) {
	if info.Entries == 0 {
		return
	}
	c.ingests.Add(1)
	c.linked.Add(uint64(info.Linked))
	c.copied.Add(uint64(info.Copied))
	c.rewritten.Add(uint64(info.Rewritten))
	c.bytesLinked.Add(info.BytesLinked)
	c.bytesIngested.Add(info.BytesCopied + info.BytesRewritten)
}
