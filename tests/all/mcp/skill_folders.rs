//! The skills extension.

use std::fs;

use rmcp::model::{
    GetSkillRequestParams, ReadResourceDirectoryRequestParams, ReadResourceRequestParams,
    ResourceContents, SkillResources,
};
use serde_json::json;
use skillrun_test_artifacts::GREET;

use super::peer::{Peer, all_peers, refused};
use crate::harness::Home;

const GUIDE: &str = "skill://notes-guide/references/a%20guide.md";

fn notes_guide(home: &Home) {
    let skill = home.skill("notes-guide");
    fs::create_dir_all(skill.join("references")).unwrap();
    fs::create_dir_all(skill.join("assets")).unwrap();
    let head = "name: notes-guide\ndescription: How to keep notes.\nversion: 1.0\n";
    fs::write(
        skill.join("SKILL.md"),
        format!("---\n{head}---\nRead it.\n"),
    )
    .unwrap();
    fs::write(skill.join("references/a guide.md"), "# Guide\n").unwrap();
    fs::write(skill.join("assets/dot.bin"), [0xff, 0x00]).unwrap();
    let hidden = home.skill("hidden");
    fs::create_dir_all(&hidden).unwrap();
    fs::write(
        hidden.join("SKILL.md"),
        "---\nname: hidden\ndescription: d\n---\n",
    )
    .unwrap();
    fs::write(hidden.join("skill.toml"), "[expose]\nmcp = false\n").unwrap();
}

async fn bytes(peer: &Peer, uri: &str) -> Vec<u8> {
    use base64::Engine as _;
    let read = peer
        .client
        .read_resource(ReadResourceRequestParams::new(uri));
    match &*read.await.unwrap().contents {
        [ResourceContents::TextResourceContents { text, .. }] => text.clone().into_bytes(),
        [ResourceContents::BlobResourceContents { blob, .. }] => {
            base64::engine::general_purpose::STANDARD
                .decode(blob)
                .unwrap()
        }
        other => panic!("{other:?}"),
    }
}

async fn a_folder_is_served_with_its_digests(peer: &Peer) {
    let skills = peer.client.list_all_skills().await.unwrap();
    let names: Vec<&str> = skills.iter().map(|skill| skill.name()).collect();
    assert_eq!(names, ["greet", "notes-guide"]);
    let skill = &skills[1];
    let head = serde_json::to_value(&skill.frontmatter).unwrap();
    let expected =
        json!({ "name": "notes-guide", "description": "How to keep notes.", "version": 1.0 });
    assert_eq!(head, expected);
    let SkillResources::Files(files) = &skill.resources else {
        panic!("{skill:?}");
    };
    let uris: Vec<&str> = files.iter().map(|file| &*file.uri).collect();
    let expected = [
        "skill://notes-guide/SKILL.md",
        "skill://notes-guide/assets/dot.bin",
        GUIDE,
    ];
    assert_eq!(uris, expected);
    for file in files {
        file.verify(&bytes(peer, &file.uri).await).unwrap();
    }
    let got = peer
        .client
        .get_skill(GetSkillRequestParams::new(&skill.uri))
        .await;
    assert_eq!(&got.unwrap().skill, skill);
    for uri in ["skill://none/SKILL.md", "skill://hidden/SKILL.md", GUIDE] {
        let error = refused(peer.client.get_skill(GetSkillRequestParams::new(uri)).await);
        assert_eq!(error.code.0, -32602, "{uri}");
    }
}

async fn a_folder_is_read_as_one(peer: &Peer) {
    let read = |uri: &str| {
        let asked = ReadResourceDirectoryRequestParams::new(uri);
        peer.client.read_resource_directory(asked)
    };
    let root = read("skill://notes-guide").await.unwrap().resources;
    let root: Vec<(&str, bool)> = root
        .iter()
        .map(|one| (&*one.name, one.is_directory()))
        .collect();
    assert_eq!(
        root,
        [("SKILL.md", false), ("assets", true), ("references", true)]
    );
    let inner = read("skill://notes-guide/references")
        .await
        .unwrap()
        .resources;
    assert_eq!(inner[0].uri, GUIDE);
    for uri in [
        "skill://notes-guide/SKILL.md",
        "skill://hidden",
        "skill://..",
        "test://a",
    ] {
        assert_eq!(refused(read(uri).await).code.0, -32602, "{uri}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_of_skills_are_served_as_they_were_loaded() {
    let home = Home::new(&[GREET]);
    notes_guide(&home);
    let (_daemon, peers) = all_peers(&home).await;
    for peer in &peers {
        a_folder_is_served_with_its_digests(peer).await;
        a_folder_is_read_as_one(peer).await;
        let listed = peer.client.list_all_resources().await.unwrap();
        let text = listed
            .iter()
            .find(|one| one.uri == "skill://notes-guide/SKILL.md")
            .unwrap();
        assert_eq!(
            (&*text.name, text.description.as_deref()),
            ("notes-guide", Some("How to keep notes."))
        );
        assert_eq!(text.mime_type.as_deref(), Some("text/markdown"));
    }
}
