// Package backuptest has a backup storage in memory whose operations tests can watch, delay and fail,
// and conformance tests for every implementation of backup.Storage.
package backuptest
