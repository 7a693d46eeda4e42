package amqp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fourfold/conformance/support"

	amqp "github.com/rabbitmq/amqp091-go"
)

// authority signs certificates for one test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func template(name string) *x509.Certificate {
	number, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	own := template("authority")
	own.IsCA, own.BasicConstraintsValid, own.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	must(t, err)
	certificate, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{certificate, key}
}

// pool trusts it and nobody else.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue makes a certificate for localhost, in files of PEM, and as a client shows it.
func (a *authority) issue(t *testing.T, name string) (certFile, keyFile string, shown tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	leaf := template(name)
	leaf.DNSNames = []string{"localhost"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.certificate, key.Public(), a.key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, name+".pem"), filepath.Join(folder, name+".key")
	must(t, os.WriteFile(certFile, cert, 0o600))
	must(t, os.WriteFile(keyFile, secret, 0o600))
	shown, err = tls.X509KeyPair(cert, secret)
	must(t, err)
	return certFile, keyFile, shown
}

// secure starts a broker with a certificate of that authority.
func (a *authority) secure(t *testing.T, options ...string) *fourfold.Broker {
	t.Helper()
	if os.Getenv("PEER_AMQP") != "" {
		t.Skip("the peer has no certificates of ours")
	}
	cert, key, _ := a.issue(t, "server")
	return fourfold.Start(t, append([]string{"--tls-cert", cert, "--tls-key", key}, options...)...)
}

func through(t *testing.T, b *fourfold.Broker, config *tls.Config) *amqp.Channel {
	t.Helper()
	connection, err := amqp.DialTLS(b.AMQPS(), config)
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	return open(t, connection)
}

func TestMessagesGoThroughTLSAndSurviveAKill(t *testing.T) {
	ours := newAuthority(t)
	b, name := ours.secure(t), fourfold.Name(t)
	channel := through(t, b, &tls.Config{RootCAs: ours.pool()})
	declare(t, channel, name)
	large := make([]byte, 1<<20)
	put(t, channel, "", name, "one", string(large))
	b.Kill()
	b.Restart()
	channel = through(t, b, &tls.Config{RootCAs: ours.pool()})
	deliveries := consume(t, channel, name)
	if one := take(t, deliveries); string(one.Body) != "one" {
		t.Fatalf("%q", one.Body)
	}
	other := take(t, deliveries)
	if len(other.Body) != len(large) {
		t.Fatalf("%d bytes", len(other.Body))
	}
	must(t, other.Ack(true))
}

func TestAServerOfAnUnknownAuthorityIsRefusedByTheClient(t *testing.T) {
	ours, unknown := newAuthority(t), newAuthority(t)
	b := ours.secure(t)
	_, err := amqp.DialTLS(b.AMQPS(), &tls.Config{RootCAs: unknown.pool()})
	var refused x509.UnknownAuthorityError
	if !errors.As(err, &refused) {
		t.Fatalf("not refused: %v", err)
	}
	depth := through(t, b, &tls.Config{RootCAs: ours.pool()})
	declare(t, depth, fourfold.Name(t))
}

func TestAClientOfAnUnknownAuthorityIsRefusedByTheServer(t *testing.T) {
	ours, unknown := newAuthority(t), newAuthority(t)
	clients := filepath.Join(t.TempDir(), "clients.pem")
	must(t, os.WriteFile(clients, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.certificate.Raw}), 0o600))
	b := ours.secure(t, "--tls-client-auth", "required", "--tls-client-ca", clients)
	_, _, stranger := unknown.issue(t, "stranger")
	_, _, known := ours.issue(t, "known")
	for _, shown := range [][]tls.Certificate{{stranger}, nil} {
		show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if shown == nil {
				return &tls.Certificate{}, nil
			}
			return &shown[0], nil
		}
		connection, err := amqp.DialTLS(b.AMQPS(), &tls.Config{RootCAs: ours.pool(), GetClientCertificate: show})
		if err == nil {
			connection.Close()
			t.Fatal("a client that nobody vouches for was let in")
		}
	}
	through(t, b, &tls.Config{RootCAs: ours.pool(), Certificates: []tls.Certificate{known}})
}
