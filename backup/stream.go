package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/errors"
)

// stream is a history of one database: a chain of segments. Its object exists once its first backup does,
// and until Prune has removed all of its backups. The database has a cursor with its ID, so it knows to which
// stream its changes belong, and keeps those that the stream does not have yet.
type stream struct {
	id, database string
	after        uint64 // the number after which segment 1 begins
}

const (
	streamTitle  = "sievedb stream 1"
	maxStream    = 1 << 20
	cursorPrefix = "backup "
)

func (s *stream) encode() []byte {
	var b strings.Builder
	var sum string
	fmt.Fprintf(&b, "%s\nid %s\ndatabase %q\nafter %d\n", streamTitle, s.id, s.database, s.after)
	return sealed(&b, &sum)
}

func decodeStream(text []byte, id string) (*stream, error) {
	head, _, _ := strings.Cut(string(text), "\n")
	if head != streamTitle {
		return nil, versionFault("stream", head, streamTitle)
	}
	body, sum, ok := cutSum(string(text))
	if got := sha256.Sum256([]byte(body)); !ok || hex.EncodeToString(got[:]) != sum {
		return nil, base.Corruptf("stream", -1, "its last line is not the checksum of the others")
	}
	r := fieldReader{what: "stream", rest: body[len(head)+1:]}
	s := &stream{id: r.line("id"), database: r.quoted("database"), after: r.number("after", r.line("after"))}
	if s.id != id || r.rest != "" {
		r.fail("it is stream %q, with %d bytes too many", s.id, len(r.rest))
	}
	return s, r.err
}

func (r *Repository) stream(ctx context.Context, id string) (s *stream, err error) {
	text, err := r.read(ctx, streamPrefix+id, maxStream)
	if err == nil {
		s, err = decodeStream(text, id)
	}
	return s, errors.Wrapf(err, "sievedb: backup: reading %s%s", streamPrefix, id)
}

// identities returns the identities of the repository. The names of cursors contain one, because a database may be
// archived in several repositories. A repository has more than one identity only if several programs made one at the
// same time.
func (r *Repository) identities(ctx context.Context, create bool) ([]string, error) {
	ids, err := r.ids(ctx, identityPrefix)
	if err != nil || len(ids) > 0 || !create {
		return ids, err
	}
	if err := r.create(ctx, identityPrefix+newID(r.now()), []byte("sievedb backup repository\n")); err != nil {
		return nil, err
	}
	return r.ids(ctx, identityPrefix)
}

func cursorName(identity, stream string) string { return cursorPrefix + identity + " " + stream }

// parseCursor returns the parts of the name of a cursor of a stream.
func parseCursor(name string) (identity, stream string, ok bool) {
	rest, ok := strings.CutPrefix(name, cursorPrefix)
	identity, stream, _ = strings.Cut(rest, " ")
	return identity, stream, ok && validID(identity) && validID(stream)
}

// cursor is a cursor of a database for a stream.
type cursor struct {
	name     string
	stream   string
	position uint64
}

// cursors returns the cursors that the database has for streams of this repository, the newest first.
func (r *Repository) cursors(ctx context.Context, d *db.DB) (all []cursor, err error) {
	named, err := d.Cursors()
	if err != nil {
		return nil, err
	}
	identities := []string(nil)
	for name, position := range named {
		identity, stream, ok := parseCursor(name)
		if !ok {
			continue
		}
		if identities == nil {
			if identities, err = r.identities(ctx, false); err != nil {
				return nil, err
			}
		}
		if slices.Contains(identities, identity) {
			all = append(all, cursor{name, stream, position})
		}
	}
	slices.SortFunc(all, func(a, b cursor) int { return strings.Compare(b.stream, a.stream) })
	return all, nil
}

// StopArchiving removes the cursors of d, because of which it keeps changes for Archive in this repository. Call it
// when d is no longer archived there: otherwise the kept changes fill the disk. The repository does not change. If
// Archive is called later, it begins with another backup.
func (r *Repository) StopArchiving(ctx context.Context, d *db.DB) error {
	if ctx == nil {
		return errors.New("sievedb: backup: StopArchiving needs a context")
	}
	all, err := r.cursors(ctx, d)
	for _, c := range all {
		err = errors.CombineErrors(err, d.DropCursor(c.name))
	}
	return errors.Wrap(err, "sievedb: backup: StopArchiving")
}

// usable returns the newest stream for which d has a cursor and which is in the repository, one of another name if
// there is none of this one. It drops cursors whose streams are gone, unless the streams may be about to be made.
func (a *archiver) usable(ctx context.Context) (*stream, *cursor, error) {
	all, err := a.cursors(ctx, a.d)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, nil
	}
	// What a listing shows survives a power cut, also if the process that made it was killed.
	there, err := a.ids(ctx, streamPrefix)
	if err != nil {
		return nil, nil, err
	}
	var found *stream
	var at *cursor
	for i := range all {
		var s *stream
		err := error(fs.ErrNotExist)
		if slices.Contains(there, all[i].stream) {
			s, err = a.stream(ctx, all[i].stream)
		}
		began, _ := timeOf(all[i].stream)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if a.now().Sub(began).Abs() > AbandonedAfter {
				err = a.d.DropCursor(all[i].name)
			} else {
				err = nil
			}
		case err == nil && (found == nil || found.database != a.opts.Database && s.database == a.opts.Database):
			found, at = s, &all[i]
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return found, at, nil
}
