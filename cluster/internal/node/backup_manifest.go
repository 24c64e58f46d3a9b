package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// Backup describes a backup of a cluster. The repository has it as the object clusters/ID: JSON, and a line with its
// SHA-256. It is written when the backups of all groups are complete, so a backup is listed or does not exist.
type Backup struct {
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Cluster string    `json:"cluster"`
	Time    time.Time `json:"time"` // when it began
	// Map is that of the cluster at that time.
	Map    *Map          `json:"map"`
	Groups []GroupBackup `json:"groups"` // by their numbers
}

// GroupBackup is the part of a backup that one group has.
type GroupBackup struct {
	Group kv.GroupID `json:"group"`
	First uint16     `json:"first_slot"`
	Last  uint16     `json:"last_slot"`
	// Backup is its ID in the repository.
	Backup string `json:"backup"`
	// Index and Term are those of the last entry of the log that it contains.
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	// Bytes is its size, Stored what was new to the repository.
	Bytes  int64 `json:"bytes"`
	Stored int64 `json:"stored"`
	// Node has made it.
	Node kv.NodeID `json:"node"`
}

// These reach the repository and never change.
const (
	backupFormat   = 1
	clusterPrefix  = "clusters/"
	databasePrefix = "sieved/group-"
	sumLine        = "sha256 "
	// maxBackupText bounds what is read of a description.
	maxBackupText = 16 << 20
)

// databaseOf is the name of a group's database in the repository.
func databaseOf(group kv.GroupID) string { return fmt.Sprintf("%s%04d", databasePrefix, group) }

var backupIDPattern = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{16}$`)

// newBackupID returns an ID that sorts by its time.
func newBackupID(at time.Time) string {
	return at.UTC().Format("20060102T150405.000Z") + "-" + randomID()
}

func (b *Backup) encode() ([]byte, error) {
	b.Format = backupFormat
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	return fmt.Appendf(text, "%s%x\n", sumLine, sha256.Sum256(text)), nil
}

var errBackupText = errors.New("the description of the backup is damaged")

// parseBackup decodes a description and checks what the rest of this package relies on.
func parseBackup(text []byte) (*Backup, error) {
	i := bytes.LastIndex(text, []byte("\n"+sumLine))
	if i < 0 {
		return nil, fmt.Errorf("%w: it has no checksum", errBackupText)
	}
	body := text[:i+1]
	if want := fmt.Sprintf("%s%x\n", sumLine, sha256.Sum256(body)); string(text[i+1:]) != want {
		return nil, fmt.Errorf("%w: its checksum is another one", errBackupText)
	}
	var b Backup
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("%w: %w", errBackupText, err)
	}
	if b.Format != backupFormat {
		return nil, fmt.Errorf("the description of the backup has format %d, and format %d is supported", b.Format, backupFormat)
	}
	return &b, b.check()
}

func (b *Backup) check() error {
	if b.Map == nil || b.Cluster == "" || !backupIDPattern.MatchString(b.ID) {
		return fmt.Errorf("%w: the ID, cluster or map is missing", errBackupText)
	}
	if err := b.Map.check(); err != nil {
		return err
	}
	if len(b.Groups) != b.Map.Groups {
		return fmt.Errorf("%w: it has %d of %d groups", errBackupText, len(b.Groups), b.Map.Groups)
	}
	for i, g := range b.Groups {
		first, last := slot.Range(kv.GroupID(i), b.Map.Groups)
		if g.Group != kv.GroupID(i) || g.First != first || g.Last != last || g.Backup == "" {
			return fmt.Errorf("%w: group %d is missing, or has other slots", errBackupText, i)
		}
	}
	return nil
}

func (b *Backup) store(ctx context.Context, s backup.Storage) error {
	text, err := b.encode()
	if err != nil {
		return err
	}
	return s.Create(ctx, clusterPrefix+b.ID, bytes.NewReader(text))
}

// readBackup reads the description of a backup.
func readBackup(ctx context.Context, s backup.Storage, id string) (b *Backup, err error) {
	if !backupIDPattern.MatchString(id) {
		return nil, fmt.Errorf("%q is not the ID of a backup of a cluster", id)
	}
	r, err := s.Open(ctx, clusterPrefix+id)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", id, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	text, err := io.ReadAll(io.LimitReader(r, maxBackupText+1))
	if err == nil && len(text) > maxBackupText {
		err = fmt.Errorf("%w: it has more than %d bytes", errBackupText, maxBackupText)
	}
	if err == nil {
		b, err = parseBackup(text)
	}
	if err == nil && b.ID != id {
		err = fmt.Errorf("%w: it is that of %s", errBackupText, b.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", id, err)
	}
	return b, nil
}

// ListBackups returns the backups of clusters in a repository, the oldest first. If some descriptions cannot be read,
// it returns the others and an error.
func ListBackups(ctx context.Context, s backup.Storage) (all []*Backup, err error) {
	var ids []string
	for o, err := range s.List(ctx, clusterPrefix) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, strings.TrimPrefix(o.Name, clusterPrefix))
	}
	slices.Sort(ids)
	for _, id := range ids {
		b, readErr := readBackup(ctx, s, id)
		if errors.Is(readErr, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		all = append(all, b)
	}
	return all, err
}

// storedGroups returns the databases of the backups in a repository, by their IDs.
func storedGroups(ctx context.Context, s backup.Storage) (databases map[string]string, err error) {
	infos, err := backup.Open(s).List(ctx)
	databases = map[string]string{}
	for _, info := range infos {
		databases[info.ID] = info.Database
	}
	return databases, err
}

// missing returns an error if the repository lacks the backup of a group.
func (b *Backup) missing(databases map[string]string) error {
	for _, g := range b.Groups {
		if databases[g.Backup] != databaseOf(g.Group) {
			return fmt.Errorf("backup %s: the repository does not have %s of group %d, which node %s has made",
				b.ID, g.Backup, g.Group, g.Node)
		}
	}
	return nil
}

// checkStored returns an error if the repository does not have the backups of all groups.
func (b *Backup) checkStored(ctx context.Context, s backup.Storage) error {
	databases, listErr := storedGroups(ctx, s) // others than those that b needs may be damaged
	if err := b.missing(databases); err != nil {
		return errors.Join(err, listErr)
	}
	return nil
}
