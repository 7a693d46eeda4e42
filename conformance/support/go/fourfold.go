// Package fourfold lends a Go test a broker of its own: started on free ports in a folder of its own, stopped, killed, and
// started again as it was. With PEER_KAFKA or PEER_AMQP (host:port) tests run against that broker instead, to judge the tests
// themselves on the real systems; tests that kill the broker are then skipped.
package fourfold

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const readySeconds = 30

// Broker is one fourfold process and its data folder.
type Broker struct {
	t       testing.TB
	home    string
	options []string
	doors   map[string]string
	peers   map[string]string
	command *exec.Cmd
	waited  chan error
}

// Start starts a broker that ends with the test, with these options beside; one that has a certificate speaks TLS, too.
func Start(t testing.TB, options ...string) *Broker {
	t.Helper()
	b := &Broker{t: t, home: t.TempDir(), options: options, doors: map[string]string{}, peers: map[string]string{}}
	for _, door := range []string{"kafka", "amqp"} {
		if peer := os.Getenv("PEER_" + strings.ToUpper(door)); peer != "" {
			b.peers[door] = peer
		}
	}
	for _, door := range []string{"kafka", "amqp", "http"} {
		b.doors[door] = "127.0.0.1:0"
	}
	if slices.Contains(options, "--tls-cert") {
		b.doors["amqps"] = "127.0.0.1:0"
	}
	b.Restart()
	t.Cleanup(b.close)
	return b
}

// Kafka is host:port for Kafka clients.
func (b *Broker) Kafka() string { return b.door("kafka") }

// AMQP is the address for AMQP clients.
func (b *Broker) AMQP() string { return "amqp://guest:guest@" + b.door("amqp") + "/" }

// AMQPS is the address for AMQP clients that speak TLS, by the name in the server's certificate.
func (b *Broker) AMQPS() string {
	_, port, _ := strings.Cut(b.door("amqps"), ":")
	return "amqps://guest:guest@localhost:" + port + "/"
}

func (b *Broker) door(name string) string {
	if peer, has := b.peers[name]; has {
		return peer
	}
	return b.doors[name]
}

// Restart starts the broker, on the ports that it had before, and waits until it is ready.
func (b *Broker) Restart() {
	b.t.Helper()
	if len(b.peers) > 0 {
		return
	}
	ready := filepath.Join(b.home, "ready.json")
	os.Remove(ready)
	args := []string{"serve", "--data", filepath.Join(b.home, "data"), "--ready-file", ready}
	args = append(args, b.options...)
	for door, address := range b.doors {
		args = append(args, "--"+door, address)
	}
	log, err := os.OpenFile(filepath.Join(b.home, "log.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.command = exec.Command(os.Getenv("FOURFOLD_BIN"), args...)
	b.command.Stdout, b.command.Stderr = log, log
	if err := b.command.Start(); err != nil {
		b.t.Fatalf("FOURFOLD_BIN: %v", err)
	}
	b.waited = make(chan error, 1)
	go func(command *exec.Cmd, waited chan error) { waited <- command.Wait() }(b.command, b.waited)
	var content struct{ Doors map[string]string }
	Eventually(b.t, "fourfold is ready", readySeconds*time.Second, func() bool {
		select {
		case err := <-b.waited:
			b.t.Fatalf("fourfold ended before it was ready: %v\n%s", err, b.Log())
		default:
		}
		text, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(text, &content) == nil
	})
	for door, address := range content.Doors {
		b.doors[door] = address
	}
}

// Kill ends it by SIGKILL.
func (b *Broker) Kill() {
	b.t.Helper()
	b.needsOwn()
	b.command.Process.Kill()
	<-b.waited
	b.command = nil
}

// Stop ends it by SIGTERM and waits for a clean end.
func (b *Broker) Stop() {
	b.t.Helper()
	b.needsOwn()
	b.command.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-b.waited:
		if err != nil {
			b.t.Fatalf("fourfold ended badly: %v\n%s", err, b.Log())
		}
	case <-time.After(30 * time.Second):
		b.t.Fatalf("fourfold did not stop within 30 s\n%s", b.Log())
	}
	b.command = nil
}

func (b *Broker) needsOwn() {
	if len(b.peers) > 0 {
		b.t.Skip("the peer is not ours to end")
	}
}

// Log is what it has said last.
func (b *Broker) Log() string {
	text, _ := os.ReadFile(filepath.Join(b.home, "log.txt"))
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

func (b *Broker) close() {
	if b.command == nil {
		return
	}
	select {
	case err := <-b.waited:
		b.t.Errorf("fourfold died: %v\n%s", err, b.Log())
	default:
		b.command.Process.Kill()
		<-b.waited
	}
}

// Eventually waits until probe answers true, and fails with what otherwise.
func Eventually(t testing.TB, what string, within time.Duration, probe func() bool) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if probe() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// Name is a name that no other test uses.
func Name(t testing.TB) string {
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s-%d", clean, time.Now().UnixNano()%1_000_000_007)
}
