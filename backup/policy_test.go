package backup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/internal/test/backuptest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// infosAt returns backups at those times, given as "day hour" of 2026, optionally with a database. A plus means that a
// stream continues it.
func infosAt(t *testing.T, times ...string) (infos []backup.Info) {
	t.Helper()
	for i, text := range times {
		at, database, _ := strings.Cut(text, "/")
		when := result.Of(time.Parse("2006-01-02 15", "2026-"+at))(t)
		database, streamed := strings.CutSuffix(database, "+")
		info := backup.Info{ID: fmt.Sprintf("%02d", i), Time: when, Database: database}
		if streamed {
			info.Stream = "stream"
		}
		infos = append(infos, info)
	}
	return infos
}

func TestPoliciesKeepTheNewestOfEachPeriod(t *testing.T) {
	// 2026-01-01 is a Thursday, of the ISO week that began in 2025.
	times := []string{"01-01 10", "01-01 23", "01-03 05", "01-05 06", "01-05 07", "01-11 23", "01-12 00", "01-12 01"}
	for _, c := range []struct {
		policy backup.Policy
		times  []string
		want   string // the kept ones
	}{
		{backup.Policy{KeepLast: 1}, times, "07"},
		{backup.Policy{KeepLast: 3}, times, "05 06 07"},
		{backup.Policy{KeepLast: 99}, times, "00 01 02 03 04 05 06 07"},
		{backup.Policy{KeepDaily: 1}, times, "07"},
		{backup.Policy{KeepDaily: 3}, times, "04 05 07"},
		{backup.Policy{KeepDaily: 99}, times, "01 02 04 05 07"},
		{backup.Policy{KeepWeekly: 2}, times, "05 07"},
		{backup.Policy{KeepWeekly: 3}, times, "02 05 07"},
		{backup.Policy{KeepLast: 2, KeepDaily: 2, KeepWeekly: 3}, times, "02 05 06 07"},
		{backup.Policy{KeepLast: 1}, []string{"01-01 10/a", "01-01 11/b", "01-01 12/a"}, "01 02"},
		{backup.Policy{KeepDaily: 1}, []string{"01-01 10/a", "01-02 11/b", "01-03 12/a"}, "01 02"},
		{backup.Policy{KeepLast: 1}, []string{"01-01 10/+", "01-01 11/+", "01-01 12/", "01-01 13/"}, "01 03"},
		{backup.Policy{KeepDaily: 1}, []string{"01-01 10/a+", "01-01 11/a", "01-02 12/a", "01-02 13/b"}, "00 02 03"},
		{backup.Policy{KeepLast: 1}, nil, ""},
	} {
		infos := infosAt(t, c.times...)
		keep, remove := backup.Divide(c.policy, infos)
		var kept []string
		for _, i := range keep {
			kept = append(kept, i.ID)
		}
		require.Equal(t, c.want, strings.Join(kept, " "), "%+v", c.policy)
		require.Len(t, remove, len(infos)-len(keep))
	}
}

func TestPoliciesThatKeepNothingAreRefused(t *testing.T) {
	repo := backup.Open(backuptest.NewMem())
	for want, p := range map[string]backup.Policy{
		"would remove every backup":       {},
		"KeepLast is -1; want 0 or more":  {KeepLast: -1, KeepDaily: 2},
		"KeepDaily is -1; want 0 or more": {KeepLast: 5, KeepDaily: -1},
	} {
		require.ErrorContains(t, result.Err(repo.Prune(background, p)), want)
	}
}

// A dry run reports exactly what the run then does.
func TestADryRunChangesNothing(t *testing.T) {
	storage, repo, d := newRepo(t)
	for i := range 5 {
		fill(t, d, 50*i, 50*i+100, fmt.Sprint("value", i))
		require.NoError(t, d.Compact(background, nil, nil))
		create(t, repo, d, nil)
	}
	before := storage.Objects()
	dry := result.Of(repo.Prune(background, backup.Policy{KeepLast: 2, DryRun: true}))(t)
	require.Equal(t, before, storage.Objects())
	require.Len(t, dry.Kept, 2)
	require.Len(t, dry.Removed, 3)
	require.Positive(t, dry.Objects)
	report := keepLast(t, repo, 2)
	require.Equal(t, dry, report)
	bytes := int64(0)
	for name, content := range before {
		if _, there := storage.Objects()[name]; !there && strings.HasPrefix(name, "objects/") {
			bytes += int64(len(content))
		}
	}
	require.Equal(t, bytes, report.Bytes)
}
