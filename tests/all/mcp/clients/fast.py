"""A client made with FastMCP. `fast.py ERA CONFIG`: ERA is `legacy` or `auto`; CONFIG is the file that clients are configured
by. It prints the name of each thing that it saw to hold."""

import json
import sys

import anyio
from fastmcp import Client
from fastmcp.skills import SkillsClientExtension
from fastmcp.exceptions import McpError, ToolError

WAIT_SECONDS_MAX = 60
LOOK_SECONDS = 0.02

logged = []
progressed = []


async def elicited(message, _kind, params, _context):
    assert message, params
    fields = params.requested_schema["properties"]
    return {name: True if field["type"] == "boolean" else f"a {name}" for name, field in fields.items()}


async def sampled(messages, _params, _context):
    assert messages[0].role == "user", messages
    return "Paris"


async def log(message):
    logged.append(message.data["message"])


async def progress(done, total, message):
    progressed.append((done, total, message))


async def until(look):
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while not (seen := await look()):
            await anyio.sleep(LOOK_SECONDS)
    return seen


async def lists(client):
    tools = [tool.name for tool in await client.list_tools()]
    assert "welcome" in tools and tools == sorted(tools), tools
    prompts = [prompt.name for prompt in await client.list_prompts()]
    assert "test_simple_prompt" in prompts, prompts
    resources = [str(resource.uri) for resource in await client.list_resources()]
    assert "test://static-text" in resources, resources
    templates = [template.uri_template for template in await client.list_resource_templates()]
    assert "skillrun://runs/{id}" in templates, templates


async def structured(client):
    result = await client.call_tool("welcome", {"name": "Ada"})
    # It is of a type that the client made of the schema.
    assert result.data.greeting == "Hello, Ada!", result
    run = await client.read_resource(f"skillrun://runs/{result.data.run_id}")
    assert json.loads(run[0].text)["status"] == "ok", run


async def mixed(client):
    result = await client.call_tool("test_multiple_content_types")
    kinds = [block.type for block in result.content]
    assert kinds[:3] == ["text", "image", "resource"], result


async def reads(client):
    arguments = {"arg1": "one", "arg2": "two"}
    prompt = await client.get_prompt("test_prompt_with_arguments", arguments)
    assert "one" in prompt.messages[0].content.text, prompt
    read = await client.read_resource("test://template/7/data")
    assert read[0].mime_type == "application/json", read


async def reports(client):
    await client.call_tool("test_tool_with_progress", progress_handler=progress)
    assert [done for done, _total, _message in progressed] == [0, 50, 100], progressed


async def logs(client):
    if client.session.protocol_version < "2026":
        await client.set_logging_level("info")
    await client.call_tool("test_tool_with_logging")
    lines = ["Tool execution started", "Tool processing data", "Tool execution completed"]

    async def came():
        return logged[-3:] == lines

    await until(came)


async def questions(client):
    result = await client.call_tool("test_elicitation", {"message": "Who?"})
    assert '"username":"a username"' in result.content[0].text, result
    result = await client.call_tool("test_sampling", {"prompt": "Capital?"})
    assert result.content[0].text == "LLM response: Paris", result
    result = await client.call_tool("test_input_required_result_list_roots")
    assert "file:///work" in result.content[0].text, result
    result = await client.call_tool("test_input_required_result_multi_round")
    assert result.content[0].text == "a name likes a color.", result


async def skills(client):
    listed = [skill.uri for skill in await client.list_skills()]
    assert "skill://welcome/SKILL.md" in listed, listed
    # The client compares what it reads with the digests.
    read = await client.read_skill("skill://welcome/SKILL.md")
    assert read.name == "welcome", read


async def errors(client):
    for tool, arguments, expected in [
        ("test_error_handling", {}, "intentionally"), ("welcome", {"name": 1}, "$.name"),
    ]:
        try:
            await client.call_tool(tool, arguments)
        except ToolError as error:
            assert expected in str(error), error
        else:
            raise AssertionError(f"{tool} did not fail")
    try:
        await client.get_prompt("none")
    except McpError as error:
        assert error.error.code == -32602, error
    else:
        raise AssertionError("there is a prompt that there is not")


async def running(client):
    ours = [one for one in await client.list_resources() if str(one.uri).startswith("skillrun://runs/")]
    return next((one.uri for one in ours if "running" in (one.description or "")), None)


async def cancellation(client):
    async with anyio.create_task_group() as calls:
        calls.start_soon(client.call_tool, "slow_compute", {"seconds": 3600, "label": "a"})
        uri = await until(lambda: running(client))
        calls.cancel_scope.cancel()

    async def is_cancelled():
        run = await client.read_resource(uri)
        return json.loads(run[0].text)["status"] == "cancelled"

    await until(is_cancelled)


CHECKS = [lists, structured, mixed, reads, reports, logs, questions, errors, cancellation]


async def main(era, config):
    configured = json.loads(await anyio.Path(config).read_text())
    client = Client(
        configured, mode=era, sampling_handler=sampled, elicitation_handler=elicited, roots=["file:///work"],
        log_handler=log, timeout=WAIT_SECONDS_MAX, cache=False,
        extensions=[SkillsClientExtension()],
    )
    async with client:
        print(client.session.protocol_version)
        # FastMCP asks for skills in the newer revision alone.
        more = [skills] if client.session.protocol_version >= "2026" else []
        for check in CHECKS + more:
            await check(client)
            print(check.__name__)


anyio.run(main, sys.argv[1], sys.argv[2])
