//! Which files may be plugins: signatures, the allow-list, and what is never loaded.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use sluicegate_tests::{Engine, PluginDir, Router, Value, digest, guest, places, wait};
use tempfile::TempDir;

fn sluicegate(arguments: &[&str]) -> Output {
    Command::new(places::router()).args(arguments).output().unwrap()
}

/// Somebody with a key.
struct Signer {
    folder: TempDir,
    /// `NAME:BASE64`
    public: String,
}

impl Signer {
    fn new(name: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let out = folder.path().join(format!("{name}.key"));
        let made = sluicegate(&["plugin", "keygen", "--out", out.to_str().unwrap()]);
        assert!(made.status.success(), "{made:?}");
        let public = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        assert!(public.starts_with(&format!("{name}:")), "{public}");
        Self { folder, public }
    }

    fn key(&self) -> PathBuf {
        let mut files = fs::read_dir(self.folder.path()).unwrap().flatten().map(|entry| entry.path());
        files.find(|path| path.extension().is_some_and(|kind| kind == "key")).unwrap()
    }

    /// The signature over these files.
    fn sign(&self, name: &str, wasm: &[u8], settings: Option<&str>, version: u64) -> Vec<u8> {
        let desk = TempDir::new().unwrap();
        let file = desk.path().join(format!("{name}.wasm"));
        fs::write(&file, wasm).unwrap();
        if let Some(settings) = settings {
            fs::write(desk.path().join(format!("{name}.toml")), settings).unwrap();
        }
        let key = self.key();
        let version = version.to_string();
        let signed = sluicegate(&[
            "plugin",
            "sign",
            file.to_str().unwrap(),
            "--key",
            key.to_str().unwrap(),
            "--version",
            &version,
        ]);
        assert!(signed.status.success(), "{signed:?}");
        fs::read(desk.path().join(format!("{name}.wasm.sig"))).unwrap()
    }
}

/// A router whose `[plugins]` has these lines.
async fn router(plugins: &PluginDir, lines: &str) -> (Engine, Router) {
    let engine = Engine::start().await;
    let config = format!("[plugins]\n{lines}\n[[pool]]\nname = \"p\"\nendpoints = [\"{}\"]\n", engine.url());
    let router = Router::with(config).plugins(plugins).start().await;
    (engine, router)
}

/// Waits until a plugin's last file was refused in words that hold this.
async fn refused_with(router: &Router, name: &str, words: &str) -> Value {
    wait::until_some(&format!("{name} is refused with `{words}`"), async || {
        let entry = router.plugin(name).await?;
        entry["refused"]["reason"].as_str()?.contains(words).then_some(entry)
    })
    .await
}

#[tokio::test]
async fn with_keys_only_what_was_signed_as_it_lies_there_is_loaded() {
    let signer = Signer::new("release");
    let plugins = PluginDir::new();
    let keys = format!("keys = [\"{}\"]", signer.public);
    let (_engine, router) = router(&plugins, &keys).await;
    let [a, b] = [guest("prefers-a"), guest("prefers-b")];

    plugins.put("mine", &a);
    refused_with(&router, "mine", "not signed").await;
    plugins.put_file("mine.wasm.sig", &signer.sign("mine", &a, None, 2));
    router.plugin_runs("mine", &digest(&a)).await;

    // Settings that nobody signed, and then signed ones.
    plugins.put_file("mine.toml", b"weight = 7.0\n");
    let entry = refused_with(&router, "mine", "does not fit").await;
    assert_eq!((&entry["digest"], &entry["state"]), (&digest(&a).into(), &"active".into()), "{entry}");
    assert_eq!(entry["weight"], 1.0, "{entry}");
    plugins.put_file("mine.wasm.sig", &signer.sign("mine", &a, Some("weight = 7.0\n"), 3));
    wait::until("the signed weight holds", async || {
        router.plugin("mine").await.is_some_and(|plugin| plugin["weight"] == 7.0)
    })
    .await;

    // Back to an older version, which was signed well at its time.
    plugins.put_file("mine.wasm.sig", &signer.sign("mine", &b, Some("weight = 7.0\n"), 2));
    plugins.put("mine", &b);
    let entry = refused_with(&router, "mine", "version 2, older than version 3").await;
    assert_eq!(entry["digest"], digest(&a), "{entry}");
    assert!(
        router
            .metric("sluicegate_plugin_refusals_total", &[("plugin", "mine"), ("reason", "older_version")])
            .await
            >= 1.0
    );
    plugins.put_file("mine.wasm.sig", &signer.sign("mine", &b, Some("weight = 7.0\n"), 4));
    router.plugin_runs("mine", &digest(&b)).await;

    // The same signature under another name.
    plugins.put_file("other.toml", b"weight = 7.0\n");
    plugins.put_file("other.wasm.sig", &signer.sign("mine", &b, Some("weight = 7.0\n"), 4));
    plugins.put("other", &b);
    refused_with(&router, "other", "does not fit").await;
    router.chat("hello").send().await.expect(200).await;
}

#[tokio::test]
async fn a_strangers_signature_and_one_that_is_none_are_refused() {
    let (signer, stranger) = (Signer::new("release"), Signer::new("stranger"));
    let plugins = PluginDir::new();
    let keys = format!("keys = [\"{}\"]", signer.public);
    let (_engine, router) = router(&plugins, &keys).await;
    let wasm = guest("prefers-a");
    plugins.put_file("mine.wasm.sig", &stranger.sign("mine", &wasm, None, 1));
    plugins.put("mine", &wasm);
    refused_with(&router, "mine", "`stranger`").await;

    let forged = String::from_utf8(stranger.sign("mine", &wasm, None, 1)).unwrap();
    plugins.put_file("mine.wasm.sig", forged.replace("key stranger", "key release").as_bytes());
    refused_with(&router, "mine", "does not fit").await;
    plugins.put_file("mine.wasm.sig", b"-----BEGIN PGP SIGNATURE-----\n");
    refused_with(&router, "mine", "cannot be used").await;
    assert!(router.metric("sluicegate_plugin_compile_seconds_count", &[("how", "child")]).await == 0.0);

    plugins.put_file("mine.wasm.sig", &signer.sign("mine", &wasm, None, 1));
    router.plugin_runs("mine", &digest(&wasm)).await;
}

#[tokio::test]
async fn an_older_version_is_loaded_where_that_is_allowed() {
    let signer = Signer::new("release");
    let plugins = PluginDir::new();
    let lines = format!("keys = [\"{}\"]\nallow_older = true", signer.public);
    let (_engine, router) = router(&plugins, &lines).await;
    for (guest, version) in [(guest("prefers-a"), 9), (guest("prefers-b"), 8)] {
        plugins.put_file("mine.wasm.sig", &signer.sign("mine", &guest, None, version));
        plugins.put("mine", &guest);
        router.plugin_runs("mine", &digest(&guest)).await;
    }
}

#[tokio::test]
async fn with_an_allow_list_only_its_digests_are_loaded() {
    let plugins = PluginDir::new();
    let [a, b] = [guest("prefers-a"), guest("prefers-b")];
    let (_engine, router) = router(&plugins, &format!("allow = [\"{}\"]", digest(&a).to_uppercase())).await;
    plugins.put("mine", &b);
    let entry = router.plugin_refused("mine", &digest(&b)).await;
    assert!(entry["refused"]["reason"].as_str().unwrap().contains("plugins.allow"), "{entry}");
    plugins.put("mine", &a);
    router.plugin_runs("mine", &digest(&a)).await;
}

#[tokio::test]
async fn a_file_in_the_directory_grants_nothing_and_unlisted_ones_can_be_refused() {
    let plugins = PluginDir::new();
    let wasm = guest("prefers-a");
    let (_engine, open) = router(&plugins, "").await;
    plugins.put_file("mine.toml", b"grant = [\"body\"]\n");
    plugins.put("mine", &wasm);
    let entry = open.plugin_refused("mine", &digest(&wasm)).await;
    let reason = entry["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains("grant") && reason.contains("[[plugin]]"), "{reason}");
    drop(open);

    plugins.put_file("mine.toml", b"weight = 1.0\n");
    let (_engine, closed) = router(&plugins, "unlisted = \"refuse\"").await;
    let entry = closed.plugin_refused("mine", &digest(&wasm)).await;
    assert!(entry["refused"]["reason"].as_str().unwrap().contains("unlisted"), "{entry}");
}

#[tokio::test]
async fn a_file_that_is_too_long_is_not_read() {
    let plugins = PluginDir::new();
    let wasm = guest("prefers-a");
    let (_engine, router) = router(&plugins, &format!("max_bytes = {}", wasm.len())).await;
    let mut longer = wasm.clone();
    longer.push(0);
    plugins.put("mine", &longer);
    refused_with(&router, "mine", "plugins.max_bytes").await;
    plugins.put("mine", &wasm);
    router.plugin_runs("mine", &digest(&wasm)).await;
}

#[test]
fn a_secret_key_is_its_owners_alone_and_is_not_written_over() {
    let signer = Signer::new("release");
    let key = signer.key();
    assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
    let before = fs::read(&key).unwrap();
    let again = sluicegate(&["plugin", "keygen", "--out", key.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("there already"), "{again:?}");
    assert_eq!(fs::read(&key).unwrap(), before);

    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let wasm = signer.folder.path().join("mine.wasm");
    fs::write(&wasm, b"x").unwrap();
    let arguments = [wasm.to_str().unwrap(), "--key", key.to_str().unwrap(), "--version", "1"];
    let signed = sluicegate(&[&["plugin", "sign"], &arguments[..]].concat());
    assert_eq!(signed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&signed.stderr).contains("chmod 600"), "{signed:?}");
}
