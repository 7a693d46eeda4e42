//! lapin through TLS.

use conformance_lapin::{Broker, name};
use lapin::options::*;
use lapin::publisher_confirm::Confirmation;
use lapin::tcp::OwnedTLSConfig;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority: its own certificate, and what it signs with.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    (certificate, Issuer::new(params, key))
}

/// A certificate for this machine and its key.
fn issue(issuer: &Issuer<'static, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

async fn connect(broker: &Broker, trusted: &str) -> Result<Connection, lapin::Error> {
    let trust = OwnedTLSConfig { identity: None, cert_chain: Some(trusted.to_owned()) };
    Connection::connect_with_config(&broker.secure_url(), ConnectionProperties::default(), trust).await
}

#[test]
fn messages_go_through_tls_survive_a_kill_and_an_unknown_authority_is_refused() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // lapin asks its users to choose
    let ((ours, issuer), (unknown, _)) = (authority(), authority());
    let (certificate, key) = issue(&issuer);
    let Some(mut broker) = Broker::start_secure(&certificate, &key) else { return };
    async_global_executor::block_on(async {
        let large = vec![7; 1 << 20];
        let queue = name("tls");
        let channel = connect(&broker, &ours).await.unwrap().create_channel().await.unwrap();
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(&queue, options, FieldTable::default()).await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let properties = BasicProperties::default().with_delivery_mode(2);
        let sent = channel.basic_publish("", &queue, BasicPublishOptions::default(), &large, properties);
        assert_eq!(sent.await.unwrap().await.unwrap(), Confirmation::Ack(None));
        assert!(connect(&broker, &unknown).await.is_err(), "an unknown authority vouched for the server");
        broker.kill();
        broker.run();
        let channel = connect(&broker, &ours).await.unwrap().create_channel().await.unwrap();
        let got = channel.basic_get(&queue, BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
        assert!(got.delivery.data == large);
    });
}
